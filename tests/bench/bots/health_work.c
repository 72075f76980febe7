/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "tests/bench/bots/bots.h"

/*
 * An ill patient goes to the hospital of the village. When a doctor is free, the hospital assesses
 * the patient. Most patients go home then, some are treated, and some must go to the hospital one
 * level up. Each village has its own random numbers, so the result does not depend on the order.
 */
#define CHILDREN      4
#define POPULATION    30 /* of a village of the lowest level, twice as many on each level above */
#define DOCTORS	      4	 /* likewise */
#define ASSESS_STEPS  3
#define TREAT_STEPS   12
#define GET_ILL	      2	  /* of 1000, at each step */
#define NEED_TREATING 100 /* of 1000 of those */
#define NEED_MORE     150 /* of 1000 of those */

enum place {
	HOME,
	WAITING,
	ASSESSED,
	TREATED,
	REFERRED, /* to the next level */
	PLACES,
};

struct patient {
	struct patient *next;
	struct patient *prev;
	int steps; /* not at home */
	int left;  /* steps here */
};

struct clinic {
	struct {
		struct patient *first;
		struct patient *last;
	} lists[PLACES];
	struct patient *patients;
	uint64_t random;
	int n_patients;
	int free_doctors;
	bool highest;
};

struct village health_root;

static void append(struct clinic *clinic, enum place place, struct patient *patient)
{
	struct patient *last = clinic->lists[place].last;

	patient->next = NULL;
	patient->prev = last;
	*(last ? &last->next : &clinic->lists[place].first) = patient;
	clinic->lists[place].last = patient;
}

static void withdraw(struct clinic *clinic, enum place place, struct patient *patient)
{
	*(patient->prev ? &patient->prev->next : &clinic->lists[place].first) = patient->next;
	*(patient->next ? &patient->next->prev : &clinic->lists[place].last) = patient->prev;
}

static bool chance(struct clinic *clinic, uint32_t of_1000)
{
	return bots_random(&clinic->random) < of_1000 * (UINT32_MAX / 1000);
}

/* Returns where a patient goes from this place, after one step there. */
static enum place next_place(struct clinic *clinic, enum place place, struct patient *patient)
{
	if (place == HOME)
		return chance(clinic, GET_ILL) ? WAITING : HOME;
	patient->steps++;
	if (place == WAITING) {
		if (!clinic->free_doctors)
			return WAITING;
		clinic->free_doctors--;
		patient->left = ASSESS_STEPS;
		return ASSESSED;
	}
	if (--patient->left)
		return place;
	if (place == ASSESSED && chance(clinic, NEED_TREATING)) {
		if (!clinic->highest && chance(clinic, NEED_MORE)) {
			clinic->free_doctors++;
			return REFERRED;
		}
		patient->left = TREAT_STEPS;
		return TREATED;
	}
	clinic->free_doctors++;
	return HOME;
}

static void step(struct clinic *clinic, enum place place)
{
	struct patient *next;

	for (struct patient *patient = clinic->lists[place].first; patient; patient = next) {
		enum place to = next_place(clinic, place, patient);

		next = patient->next;
		if (to != place) {
			withdraw(clinic, place, patient);
			append(clinic, to, patient);
		}
	}
}

void health_treat(struct village *village)
{
	step(village->clinic, TREATED);
	step(village->clinic, ASSESSED);
	step(village->clinic, WAITING);
}

void health_population(struct village *village)
{
	for (int i = 0; i < village->n_children; i++) {
		struct clinic *child = village->children[i].clinic;
		struct patient *patient;

		while ((patient = child->lists[REFERRED].first)) {
			withdraw(child, REFERRED, patient);
			append(village->clinic, WAITING, patient);
		}
	}
	step(village->clinic, HOME);
}

static void village_init(struct village *village, int level, uint64_t number, bool highest)
{
	struct clinic *clinic = calloc(1, sizeof(*clinic));

	clinic->random = number;
	clinic->highest = highest;
	clinic->free_doctors = DOCTORS << level;
	clinic->n_patients = POPULATION << level;
	clinic->patients = calloc((size_t)clinic->n_patients, sizeof(*clinic->patients));
	for (int i = 0; i < clinic->n_patients; i++)
		append(clinic, HOME, &clinic->patients[i]);
	village->clinic = clinic;
	village->n_children = level ? CHILDREN : 0;
	village->children = calloc(CHILDREN, sizeof(*village->children));
	for (int i = 0; i < village->n_children; i++)
		village_init(&village->children[i], level - 1, number * CHILDREN + (uint64_t)i + 1,
			     false);
}

static void village_fini(struct village *village)
{
	for (int i = 0; i < village->n_children; i++)
		village_fini(&village->children[i]);
	free(village->children);
	if (village->clinic)
		free(village->clinic->patients);
	free(village->clinic);
}

void bots_prepare(int size)
{
	village_fini(&health_root);
	village_init(&health_root, size - 1, 1, true);
}

/* Adds the patients of a village to the hash, and their number to *missing, less those found. */
static uint64_t examine(const struct village *village, uint64_t hash, int *missing)
{
	const struct clinic *clinic = village->clinic;

	*missing += clinic->n_patients;
	for (int place = 0; place < PLACES; place++)
		for (const struct patient *p = clinic->lists[place].first; p; p = p->next) {
			hash = bots_hash(hash, (uint64_t)(p->steps * PLACES + place));
			--*missing;
		}
	for (int i = 0; i < village->n_children; i++)
		hash = examine(&village->children[i], hash, missing);
	return hash;
}

uint64_t bots_result(void)
{
	int missing = 0;
	uint64_t hash = examine(&health_root, 1, &missing);

	return missing ? 0 : hash;
}

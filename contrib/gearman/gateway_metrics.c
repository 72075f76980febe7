/* SPDX-License-Identifier: MIT */
/* gateway_metrics.c - the counters of forkd-gearman */
#include "contrib/gearman/gateway_metrics.h"

#include <inttypes.h>

#include "client/forkctl/openmetrics.h"
#include "common/clock.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "contrib/gearman/gateway_options.h"
#include "contrib/gearman/gateway_connection.h"

static const char *const end_names[GATEWAY_ENDS] = {
	[GATEWAY_DONE] = "DONE",	   [GATEWAY_FAILED] = "FAILED",
	[GATEWAY_CANCELLED] = "CANCELLED", [GATEWAY_EXPIRED] = "EXPIRED",
	[GATEWAY_CRASHED] = "CRASHED",	   [GATEWAY_REFUSED] = "REFUSED",
	[GATEWAY_UNKNOWN] = "UNKNOWN",
};

/* Metrics of one number. */
static const struct simple {
	size_t offset; /* in struct gateway_metrics */
	const char *name;
	const char *type;
	const char *unit;
	const char *help;
} simples[] = {
	{ offsetof(struct gateway_metrics, forkd_connected), "gearman_forkd_connected", "gauge",
	  NULL, "1 if the gateway is connected to forkd" },
	{ offsetof(struct gateway_metrics, in_flight), "gearman_jobs_in_flight", "gauge", NULL,
	  "Jobs in the gateway" },
	{ offsetof(struct gateway_metrics, rerun), "gearman_jobs_resubmitted", "counter", NULL,
	  "Jobs submitted to forkd again" },
	{ offsetof(struct gateway_metrics, journal_hits), "gearman_journal_hits", "counter", NULL,
	  "Jobs that were not started because they are in the journal" },
	{ offsetof(struct gateway_metrics, undelivered), "gearman_answers_lost", "counter", NULL,
	  "Answers that could not be sent to the server" },
	{ offsetof(struct gateway_metrics, bytes_in), "gearman_received_bytes", "counter", "bytes",
	  "Payloads of jobs" },
	{ offsetof(struct gateway_metrics, bytes_out), "gearman_sent_bytes", "counter", "bytes",
	  "Answers of jobs" },
};

enum gateway_end gateway_metrics_end_of(const char *outcome)
{
	for (enum gateway_end end = 0; end < GATEWAY_ENDS; end++)
		if (streq(outcome, end_names[end]))
			return end;
	return GATEWAY_UNKNOWN;
}

/* The end of a bucket. */
static uint64_t latency_end(uint32_t bucket)
{
	return UINT64_C(1) << (GATEWAY_LATENCY_FIRST + bucket);
}

void gateway_metrics_ended(struct gateway_metrics *metrics, enum gateway_end end, uint64_t ns)
{
	uint32_t bucket = 0;

	while (bucket < GATEWAY_LATENCIES && ns > latency_end(bucket))
		bucket++;
	(void)add_relaxed(&metrics->ends[end], 1);
	(void)add_relaxed(&metrics->latency[bucket], 1);
	(void)add_relaxed(&metrics->latency_ns, ns);
}

static void print_simples(const struct openmetrics *out, const struct gateway_metrics *metrics)
{
	for (size_t i = 0; i < ARRAY_SIZE(simples); i++) {
		const struct simple *s = &simples[i];
		const _Atomic uint64_t *value = (const void *)((const char *)metrics + s->offset);

		openmetrics_head(out, s->name, s->type, s->unit, s->help);
		(void)fprintf(out->file, "forkd_%s%s %" PRIu64 "\n", s->name,
			      openmetrics_suffix(s->type), load_relaxed(value));
	}
}

static void print_ends(const struct openmetrics *out, const struct gateway_metrics *metrics)
{
	openmetrics_head(out, "gearman_jobs", "counter", NULL, "Jobs that have ended, by outcome");
	for (enum gateway_end end = 0; end < GATEWAY_ENDS; end++)
		(void)fprintf(out->file, "forkd_gearman_jobs_total{outcome=\"%s\"} %" PRIu64 "\n",
			      end_names[end], load_relaxed(&metrics->ends[end]));
}

static void print_servers(const struct openmetrics *out, const struct gateway_server *servers,
			  uint32_t n)
{
	openmetrics_head(out, "gearman_server_connected", "gauge", NULL,
			 "1 if the gateway is connected to the server");
	for (uint32_t i = 0; i < n; i++) {
		(void)fputs("forkd_gearman_server_connected{server=\"", out->file);
		openmetrics_escaped(out, servers[i].address->host, true);
		(void)fprintf(out->file, ":%u\"} %" PRIu32 "\n", servers[i].address->port,
			      load_relaxed(&servers[i].connected));
	}
}

static void print_latency(const struct openmetrics *out, const struct gateway_metrics *metrics)
{
	uint64_t n = 0, ns = load_relaxed(&metrics->latency_ns);

	openmetrics_head(out, "gearman_latency_seconds", "histogram", "seconds",
			 "Time of jobs from their receipt to their answer");
	for (uint32_t i = 0; i < GATEWAY_LATENCIES; i++) {
		uint64_t end = latency_end(i);

		n += load_relaxed(&metrics->latency[i]);
		(void)fprintf(out->file,
			      "forkd_gearman_latency_seconds_bucket{le=\"%" PRIu64 ".%09" PRIu64
			      "\"} %" PRIu64 "\n",
			      end / NSEC_PER_SEC, end % NSEC_PER_SEC, n);
	}
	n += load_relaxed(&metrics->latency[GATEWAY_LATENCIES]);
	(void)fprintf(out->file,
		      "forkd_gearman_latency_seconds_bucket{le=\"+Inf\"} %" PRIu64
		      "\nforkd_gearman_latency_seconds_count %" PRIu64
		      "\nforkd_gearman_latency_seconds_sum %" PRIu64 ".%09" PRIu64 "\n",
		      n, n, ns / NSEC_PER_SEC, ns % NSEC_PER_SEC);
}

void gateway_metrics_print(const struct gateway_metrics *metrics,
			   const struct gateway_server *servers, uint32_t n_servers, FILE *file,
			   int openmetrics)
{
	const struct openmetrics out = { file, openmetrics };

	print_simples(&out, metrics);
	print_ends(&out, metrics);
	print_servers(&out, servers, n_servers);
	print_latency(&out, metrics);
	if (openmetrics)
		(void)fputs("# EOF\n", file);
}

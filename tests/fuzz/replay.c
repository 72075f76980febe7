/* SPDX-License-Identifier: MIT */
/*
 * replay.c - runs a fuzz target without libFuzzer
 *
 * The main program of the test tests/fuzz/replay_NAME: passes each input in tests/fuzz/corpus/NAME,
 * or each file of its command line, to the target. So known faults are tested under each sanitizer
 * and with any compiler.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

#define DIRECTORY 4096

static unsigned int n_inputs;

static void run_file(const char *path)
{
	FILE *file = fopen(path, "re");
	uint8_t *data;
	struct stat st;
	size_t size;

	if (!file || fstat(fileno(file), &st) < 0) {
		(void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(EXIT_FAILURE);
	}
	size = (size_t)st.st_size;
	/* Of exactly this size, for AddressSanitizer. */
	data = malloc(size);
	FUZZ_ASSERT((data || !size) && fread(data, 1, size, file) == size);
	(void)fclose(file);
	/* It is the last line when a fault ends the process. */
	(void)printf("%s\n", path);
	(void)fflush(stdout);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	n_inputs++;
}

static int is_seen(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void run_directory(const char directory[DIRECTORY])
{
	struct dirent **names;
	int n = scandir(directory, &names, is_seen, alphasort);

	if (n < 0) {
		(void)fprintf(stderr, "%s: %s\n", directory, strerror(errno));
		exit(EXIT_FAILURE);
	}
	for (int i = 0; i < n; i++) {
		char path[DIRECTORY + 258];

		(void)snprintf(path, sizeof(path), "%.*s/%s", DIRECTORY, directory,
			       names[i]->d_name);
		run_file(path);
		free(names[i]);
	}
	free(names);
}

int main(int argc, char *argv[])
{
	const char *name = strrchr(argv[0], '_');
	const char *top = getenv("top_srcdir");
	char directory[DIRECTORY];

	for (int i = 1; i < argc; i++)
		run_file(argv[i]);
	if (argc == 1) {
		(void)snprintf(directory, sizeof(directory), "%s/tests/fuzz/corpus/%s",
			       top ? top : ".", name ? name + 1 : "");
		run_directory(directory);
	}
	(void)printf("%u inputs\n", n_inputs);
	return n_inputs ? EXIT_SUCCESS : EXIT_FAILURE;
}

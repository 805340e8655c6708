/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake slurmstepd and munged for the plugin.
 *
 *   stepd PLUGIN CONTEXT STEP_ID MUNGE [OPTION ...]
 *
 * PLUGIN is gridstead.so, or "-" if the plugin is linked into the program. CONTEXT
 * is remote or local. MUNGE is ok, fail or hang. The program calls both callbacks
 * and waits for their child processes. It prints the return values, the duration
 * in milliseconds and the exit status of each child process. All signals are
 * blocked and SIGALRM is ignored, which is the worst case for the plugin.
 */
#include <dlfcn.h>
#include <munge.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/spank.h>

static const char *context;
static const char *munge_mode;
static uint32_t step_id;

int spank_remote(spank_t spank)
{
	(void)spank;
	return strcmp(context, "remote") == 0;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
	spank_err_t rv = ESPANK_SUCCESS;
	va_list values;

	(void)spank;
	va_start(values, item);
	if (item == S_JOB_STEPID)
		*va_arg(values, uint32_t *) = step_id;
	else if (item == S_JOB_ID)
		*va_arg(values, uint32_t *) = 4711;
	else if (item == S_JOB_UID)
		*va_arg(values, uid_t *) = 200001;
	else
		rv = ESPANK_BAD_ARG;
	va_end(values);
	return rv;
}

struct munge_ctx {
	int ttl_s;
};

munge_ctx_t munge_ctx_create(void)
{
	return calloc(1, sizeof(struct munge_ctx));
}

void munge_ctx_destroy(munge_ctx_t munge)
{
	free(munge);
}

munge_err_t munge_ctx_set(munge_ctx_t munge, int option, ...)
{
	va_list values;

	if (option != MUNGE_OPT_TTL)
		return EMUNGE_BAD_ARG;
	va_start(values, option);
	munge->ttl_s = va_arg(values, int);
	va_end(values);
	return EMUNGE_SUCCESS;
}

munge_err_t munge_encode(char **credential, munge_ctx_t munge, const void *text, int length)
{
	if (strcmp(munge_mode, "hang") == 0) {
		for (;;)
			(void)pause();
	}
	if (strcmp(munge_mode, "fail") == 0)
		return EMUNGE_SOCKET;
	if (asprintf(credential, "CREDENTIAL:%d:%.*s", munge->ttl_s, length, (const char *)text) < 0)
		return EMUNGE_NO_MEMORY;
	return EMUNGE_SUCCESS;
}

const char *munge_strerror(munge_err_t error)
{
	(void)error;
	return "error of the fake munged";
}

static void signals_block_all(void)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)signal(SIGALRM, SIG_IGN);
}

static long milliseconds(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static spank_f *callback(const char *plugin, const char *name)
{
	void *handle = dlopen(strcmp(plugin, "-") == 0 ? NULL : plugin, RTLD_NOW);
	spank_f *function = NULL;

	if (handle != NULL)
		*(void **)&function = dlsym(handle, name);
	if (function == NULL) {
		(void)fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	return function;
}

int main(int argc, char **argv)
{
	spank_f *init_post_opt;
	spank_f *finish;
	long before;
	int init_rv;
	int finish_rv;
	int status;

	if (argc < 5)
		return EXIT_FAILURE;
	context = argv[2];
	step_id = (uint32_t)strtoul(argv[3], NULL, 10);
	munge_mode = argv[4];
	init_post_opt = callback(argv[1], "slurm_spank_init_post_opt");
	finish = callback(argv[1], "slurm_spank_exit");
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	signals_block_all();

	before = milliseconds();
	init_rv = init_post_opt(NULL, argc - 5, argv + 5);
	finish_rv = finish(NULL, argc - 5, argv + 5);
	(void)printf("returned %d %d\nduration_ms %ld\n", init_rv, finish_rv, milliseconds() - before);
	(void)fflush(stdout);

	while (wait(&status) > 0)
		(void)printf("child %s %d\n", WIFSIGNALED(status) ? "signal" : "exit",
			     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return EXIT_SUCCESS;
}

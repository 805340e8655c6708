/* SPDX-License-Identifier: Apache-2.0 */
#include "sender.h"

#include <errno.h>
#include <fcntl.h>
#include <munge.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

/* Let SIGALRM end this process after a second, even if the caller blocked or ignored signals. */
static void lifetime_limit(void)
{
	struct sigaction action;
	sigset_t none;

	memset(&action, 0, sizeof(action));
	action.sa_handler = SIG_DFL;
	(void)sigemptyset(&action.sa_mask);
	(void)sigaction(SIGALRM, &action, NULL);
	(void)alarm(SENDER_LIFETIME_S);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Redirect standard input, output and error to /dev/null and close all other descriptors. */
static void descriptors_close(void)
{
	int null = open("/dev/null", O_RDWR);
	int i;

	for (i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
		if (null < 0 || dup2(null, i) < 0)
			(void)close(i);
	}
	(void)close_range(STDERR_FILENO + 1, ~0U, 0);
	if (chdir("/") != 0)
		syslog(LOG_ERR, "gridstead: send: couldn't leave the working directory: %m");
}

/* Return the MUNGE credential; the caller must free it. On error, log the error, return NULL. */
static char *credential_encode(const char *text, int length)
{
	char *rv = NULL;
	char *credential = NULL;
	munge_err_t error;
	munge_ctx_t context = munge_ctx_create();

	if (context == NULL) {
		syslog(LOG_ERR, "gridstead: send: couldn't create a munge context: no memory");
		goto out;
	}
	error = munge_ctx_set(context, MUNGE_OPT_TTL, SENDER_TTL_S);
	if (error != EMUNGE_SUCCESS) {
		syslog(LOG_ERR, "gridstead: send: couldn't set the credential's TTL: %s",
		       munge_strerror(error));
		goto out;
	}
	error = munge_encode(&credential, context, text, length);
	if (error != EMUNGE_SUCCESS) {
		syslog(LOG_ERR, "gridstead: send: couldn't encode the report: %s",
		       munge_strerror(error));
		goto out;
	}
	rv = credential;
	credential = NULL;

out:
	free(credential);
	if (context != NULL)
		munge_ctx_destroy(context);
	return rv;
}

/* Send one datagram without a retry. */
static void datagram_send(const struct options *options, const char *payload)
{
	const struct sockaddr *agent = (const struct sockaddr *)&options->agent;
	size_t length = strlen(payload);
	int fd = socket(agent->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		syslog(LOG_ERR, "gridstead: send: couldn't create a socket: %m");
		return;
	}
	if (sendto(fd, payload, length, MSG_DONTWAIT | MSG_NOSIGNAL, agent,
		   options->agent_length) != (ssize_t)length)
		syslog(LOG_ERR, "gridstead: send: couldn't send the report: %m");
	(void)close(fd);
}

/* Encode one record as a credential and send it. The grandchild calls this function. */
static void record_send(const struct options *options, const struct report_record *record)
{
	char text[REPORT_SIZE];
	char *payload;
	int length;

	lifetime_limit();
	descriptors_close();
	if (options->error[0] != '\0')
		syslog(LOG_ERR, "%s", options->error);
	if (options->agent_length == 0) {
		syslog(LOG_ERR, "gridstead: send: couldn't send the report: no agent is set");
		return;
	}
	length = report_record_format(record, text, sizeof(text));
	if (length < 0) {
		syslog(LOG_ERR, "gridstead: send: couldn't write the report of job %u",
		       (unsigned int)record->slurm_job_id);
		return;
	}
	payload = credential_encode(text, length);
	if (payload == NULL)
		return;
	datagram_send(options, payload);
	free(payload);
}

void sender_dispatch(const struct options *options, const struct report_record *record)
{
	pid_t child = fork();

	if (child < 0)
		return; /* a missing report only delays the settlement */
	if (child > 0) {
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
		return;
	}

	lifetime_limit();
	if (fork() == 0)
		record_send(options, record);
	_exit(EXIT_SUCCESS);
}

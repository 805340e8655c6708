/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send a report without delaying the caller.
 *
 * A grandchild of the caller does the work. It inherits no descriptor, and the caller
 * does not wait for it. Its own alarm ends it after one second, even if munged or the
 * network hangs. Errors are written only to syslog, because slurmstepd's log functions
 * would print them into the user's output.
 */
#ifndef GRIDSTEAD_SENDER_H
#define GRIDSTEAD_SENDER_H

#include "options.h"
#include "report.h"

enum {
	SENDER_LIFETIME_S = 1, /* maximum lifetime of the grandchild */
	SENDER_TTL_S = 60      /* time to live of a credential; the agent refuses older ones */
};

/*
 * Start a process that logs the error of the options, encodes the record as a MUNGE
 * credential and sends it once. Return immediately.
 */
void sender_dispatch(const struct options *options, const struct report_record *record);

#endif

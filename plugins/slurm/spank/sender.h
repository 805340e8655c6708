/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send a report without delaying the caller.
 *
 * A grandchild of the caller does the work. The grandchild inherits no descriptor,
 * the caller cannot wait for it, and its own alarm ends it after one second even if
 * munged or the network hang. Errors are written to syslog only: slurmstepd's log
 * functions would print them into the user's output.
 */
#ifndef GRIDSTEAD_SENDER_H
#define GRIDSTEAD_SENDER_H

#include "options.h"
#include "report.h"

enum {
	SENDER_LIFE_S = 1, /* maximum lifetime of the grandchild */
	SENDER_TTL_S = 60  /* time to live of a credential: the agent refuses older reports */
};

/*
 * Start a process that logs the error of the options, seals the record and sends
 * the record once. Return at once.
 */
void sender_dispatch(const struct options *options, const struct report_record *record);

#endif

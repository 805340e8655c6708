/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending a report without the caller noticing.
 *
 * The work is done by a grandchild of the caller, which has no descriptor of the
 * caller's, cannot be waited for and is ended by its own alarm after a second,
 * whatever munged or the network do. Its troubles go to syslog and nowhere else:
 * slurmstepd's own log functions would print them into the user's output.
 */
#ifndef GRIDSTEAD_SENDER_H
#define GRIDSTEAD_SENDER_H

#include "options.h"
#include "report.h"

enum {
	SENDER_LIFE_S = 1, /* the grandchild's longest life */
	SENDER_TTL_S = 60  /* how long the agent may take a report for fresh */
};

/* Have the record sealed and sent once, and the options' complaint logged; return at once. */
void sender_dispatch(const struct options *options, const struct report_record *record);

#endif

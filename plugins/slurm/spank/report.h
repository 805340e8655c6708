/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of one report of a compute node about one step of one job.
 *
 * A record is one line of eight words, separated by single spaces:
 *
 *   gridstead1 <start|end> <slurm_job_id> <uid> <batch|extern> <node> <stepd_start_s> <event_s>
 *
 * Users cannot change any part of a record: the words come from Slurm, the host name
 * and the clock.
 */
#ifndef GRIDSTEAD_REPORT_H
#define GRIDSTEAD_REPORT_H

#include <stddef.h>
#include <stdint.h>

enum {
	/* Large enough for any record: the longest host name and the longest numbers. */
	REPORT_SIZE = 320
};

enum report_event {
	REPORT_START,
	REPORT_END
};

enum report_step {
	REPORT_STEP_NONE, /* a step that is not reported */
	REPORT_STEP_BATCH,
	REPORT_STEP_EXTERN
};

struct report_record {
	enum report_event event;
	enum report_step step;
	uint32_t slurm_job_id;
	uint32_t uid;
	const char *node;      /* short host name */
	int64_t stepd_start_s; /* Unix time at which slurmstepd loaded the plugin */
	int64_t event_s;       /* Unix time of the event */
};

/* Return the type of a step from Slurm's step id. */
enum report_step report_step_from_id(uint32_t slurm_step_id);

/*
 * Write the record as text without a newline and return the length of the text.
 * Return -1 and write an empty text if the record does not fit, if a time is
 * negative, or if a field is not a valid word.
 */
int report_record_format(const struct report_record *record, char *text, size_t size);

#endif

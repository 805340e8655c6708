/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <slurm/slurm.h>

static const char node_characters[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-._";

static const char *event_word(enum report_event event)
{
	switch (event) {
	case REPORT_START:
		return "start";
	case REPORT_END:
		return "end";
	}
	return NULL;
}

static const char *step_word(enum report_step step)
{
	switch (step) {
	case REPORT_STEP_BATCH:
		return "batch";
	case REPORT_STEP_EXTERN:
		return "extern";
	case REPORT_STEP_NONE:
		break;
	}
	return NULL;
}

static int is_node_name(const char *node)
{
	return node != NULL && node[0] != '\0' && node[strspn(node, node_characters)] == '\0';
}

enum report_step report_step_from_id(uint32_t slurm_step_id)
{
	if (slurm_step_id == SLURM_BATCH_SCRIPT)
		return REPORT_STEP_BATCH;
	if (slurm_step_id == SLURM_EXTERN_CONT)
		return REPORT_STEP_EXTERN;
	return REPORT_STEP_NONE;
}

int report_record_format(const struct report_record *record, char *text, size_t size)
{
	int rv = -1;
	int length;
	const char *event = event_word(record->event);
	const char *step = step_word(record->step);

	if (size == 0)
		return rv;
	if (event == NULL || step == NULL || !is_node_name(record->node))
		goto out;
	if (record->stepd_start_s < 0 || record->event_s < 0)
		goto out;

	length = snprintf(text, size,
			  "gridstead1 %s %" PRIu32 " %" PRIu32 " %s %s %" PRId64 " %" PRId64,
			  event, record->slurm_job_id, record->uid, step, record->node,
			  record->stepd_start_s, record->event_s);
	if (length < 0 || (size_t)length >= size)
		goto out;
	rv = length;

out:
	if (rv < 0)
		text[0] = '\0';
	return rv;
}

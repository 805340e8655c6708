/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of report.c, which formats the report of the start or the end of a step. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "report.h"

static struct report_record sample(void)
{
	return (struct report_record){
		.event = REPORT_START,
		.step = REPORT_STEP_BATCH,
		.slurm_job_id = 4711,
		.uid = 200001,
		.node = "compute1",
		.stepd_start_s = 1700000000,
		.event_s = 1700000002,
	};
}

static void node_that_is_not_one_word_is_refused(void)
{
	static const char *const nodes[] = {
		"", "two words", "line\nbreak", "tab\t", "na\xc3\xafve", "a/b",
	};
	char text[REPORT_SIZE];
	size_t i;

	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		struct report_record record = sample();

		record.node = nodes[i];
		CHECK(report_record_format(&record, text, sizeof(text)) == -1);
		CHECK_TEXT("", text);
	}
}

static void missing_node_is_refused(void)
{
	struct report_record record = sample();
	char text[REPORT_SIZE];

	record.node = NULL;
	CHECK(report_record_format(&record, text, sizeof(text)) == -1);
	CHECK_TEXT("", text);
}

static void step_that_is_not_reported_is_refused(void)
{
	struct report_record record = sample();
	char text[REPORT_SIZE];

	record.step = REPORT_STEP_NONE;
	CHECK(report_record_format(&record, text, sizeof(text)) == -1);
	record.step = (enum report_step)17;
	CHECK(report_record_format(&record, text, sizeof(text)) == -1);
}

static void unknown_event_is_refused(void)
{
	struct report_record record = sample();
	char text[REPORT_SIZE];

	record.event = (enum report_event)2;
	CHECK(report_record_format(&record, text, sizeof(text)) == -1);
}

static void time_before_the_epoch_is_refused(void)
{
	struct report_record record = sample();
	char text[REPORT_SIZE];

	record.stepd_start_s = -1;
	CHECK(report_record_format(&record, text, sizeof(text)) == -1);
	record = sample();
	record.event_s = -1;
	CHECK(report_record_format(&record, text, sizeof(text)) == -1);
}

static void record_that_does_not_fit_is_refused_at_every_size(void)
{
	struct report_record record = sample();
	char text[REPORT_SIZE];
	size_t length = (size_t)report_record_format(&record, text, sizeof(text));
	size_t size;

	CHECK(report_record_format(&record, text, 0) == -1);
	for (size = 1; size <= length; size++) {
		char *small = malloc(size);

		CHECK(report_record_format(&record, small, size) == -1);
		CHECK_TEXT("", small);
		free(small);
	}
}

static void record_fits_exactly(void)
{
	struct report_record record = sample();
	char text[REPORT_SIZE];
	size_t length = (size_t)report_record_format(&record, text, sizeof(text));
	char *exact = malloc(length + 1);

	CHECK(report_record_format(&record, exact, length + 1) == (int)length);
	CHECK_TEXT(text, exact);
	free(exact);
}

static void start_and_end_are_one_line_with_eight_words(void)
{
	struct report_record record = sample();
	char text[REPORT_SIZE];

	CHECK(report_record_format(&record, text, sizeof(text)) == (int)strlen(text));
	CHECK_TEXT("gridstead1 start 4711 200001 batch compute1 1700000000 1700000002", text);
	record.event = REPORT_END;
	record.step = REPORT_STEP_EXTERN;
	CHECK(report_record_format(&record, text, sizeof(text)) == (int)strlen(text));
	CHECK_TEXT("gridstead1 end 4711 200001 extern compute1 1700000000 1700000002", text);
}

static void largest_record_fits_the_buffer(void)
{
	char node[HOST_NAME_MAX + 1];
	char text[REPORT_SIZE];
	struct report_record record = {
		.event = REPORT_START,
		.step = REPORT_STEP_EXTERN,
		.slurm_job_id = UINT32_MAX,
		.uid = UINT32_MAX,
		.node = node,
		.stepd_start_s = INT64_MAX,
		.event_s = INT64_MAX,
	};

	memset(node, 'n', sizeof(node) - 1);
	node[sizeof(node) - 1] = '\0';
	CHECK(report_record_format(&record, text, sizeof(text)) > 0);
}

static void only_batch_and_extern_steps_are_reported(void)
{
	/* Slurm's ids of the batch script, the extern step and the interactive step. */
	CHECK(report_step_from_id(4294967291U) == REPORT_STEP_BATCH);
	CHECK(report_step_from_id(4294967292U) == REPORT_STEP_EXTERN);
	CHECK(report_step_from_id(0) == REPORT_STEP_NONE);
	CHECK(report_step_from_id(4294967290U) == REPORT_STEP_NONE);
	CHECK(report_step_from_id(UINT32_MAX) == REPORT_STEP_NONE);
}

int main(void)
{
	node_that_is_not_one_word_is_refused();
	missing_node_is_refused();
	step_that_is_not_reported_is_refused();
	unknown_event_is_refused();
	time_before_the_epoch_is_refused();
	record_that_does_not_fit_is_refused_at_every_size();
	record_fits_exactly();
	start_and_end_are_one_line_with_eight_words();
	largest_record_fits_the_buffer();
	only_batch_and_extern_steps_are_reported();
	return check_failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

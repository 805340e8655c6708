/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gridstead.so: report the start and the end of a job on this node to the cluster agent.
 *
 * Rules for the plugin: act only in slurmstepd, and only for the batch and extern steps.
 * Always return success. Never wait, and never print. A report is a hint: if all reports
 * are lost, jobs are settled from the accounting database.
 */
#include <limits.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <slurm/spank.h>

#include "options.h"
#include "report.h"
#include "sender.h"

SPANK_PLUGIN(gridstead, 1)

/* The start of the step. All callbacks of a step run in the same slurmstepd process. */
static time_t stepd_start_s = 0;

/* Write the name of the node: the host name up to the first dot. Return 0, or -1 on error. */
static int node_name_get(char *node, size_t size)
{
	if (gethostname(node, size) != 0)
		return -1;
	node[size - 1] = '\0';
	node[strcspn(node, ".")] = '\0';
	return 0;
}

static void step_report(spank_t spank, enum report_event event, int ac, char **av)
{
	char node[HOST_NAME_MAX + 1];
	uint32_t slurm_step_id = 0;
	uint32_t slurm_job_id = 0;
	uid_t uid = 0;
	struct options options;
	struct report_record record;

	if (spank_remote(spank) != 1)
		return;
	if (spank_get_item(spank, S_JOB_STEPID, &slurm_step_id) != ESPANK_SUCCESS)
		return;
	if (report_step_from_id(slurm_step_id) == REPORT_STEP_NONE)
		return;
	if (spank_get_item(spank, S_JOB_ID, &slurm_job_id) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS)
		return;
	if (node_name_get(node, sizeof(node)) != 0)
		return;

	if (stepd_start_s == 0)
		stepd_start_s = time(NULL);
	options = options_parse(ac, av);
	record = (struct report_record){
		.event = event,
		.step = report_step_from_id(slurm_step_id),
		.slurm_job_id = slurm_job_id,
		.uid = uid,
		.node = node,
		.stepd_start_s = stepd_start_s,
		.event_s = time(NULL),
	};
	sender_dispatch(&options, &record);
}

/* Slurm calls this function as root, before slurmstepd changes to the identity of the user. */
int slurm_spank_init_post_opt(spank_t spank, int ac, char **av)
{
	step_report(spank, REPORT_START, ac, av);
	return ESPANK_SUCCESS;
}

/* Slurm calls this function as root in slurmstepd, after all tasks of the step have ended. */
int slurm_spank_exit(spank_t spank, int ac, char **av)
{
	step_report(spank, REPORT_END, ac, av);
	return ESPANK_SUCCESS;
}

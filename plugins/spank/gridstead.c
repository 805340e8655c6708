/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gridstead.so: tells the cluster agent when a job starts and ends on this node.
 *
 * Rules: act in slurmstepd only, and there on the batch and extern steps only;
 * return success always; never wait, never print. A report is a hint: when each
 * one is lost, jobs are settled from accounting all the same.
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

/* Callbacks of one step share one slurmstepd, so this is the step's own start. */
static time_t stepd_start_s = 0;

/* Fill in the host's name up to its first dot, which is the node's name to Slurm. */
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

/* Runs as root in slurmstepd before it takes the user's identity. */
int slurm_spank_init_post_opt(spank_t spank, int ac, char **av)
{
	step_report(spank, REPORT_START, ac, av);
	return ESPANK_SUCCESS;
}

/* Runs as root in slurmstepd when all tasks of the step have ended. */
int slurm_spank_exit(spank_t spank, int ac, char **av)
{
	step_report(spank, REPORT_END, ac, av);
	return ESPANK_SUCCESS;
}

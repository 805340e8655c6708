#!/bin/bash -l
# A job of the grid, rendered from the customer's workflow. The steps are at the end.
# The disabled checks concern quoted text and variables of the customer.
# shellcheck disable=SC1003,SC2016,SC2030,SC2031,SC2034,SC2054,SC2088,SC2141
set -euo pipefail

%%{secrets}# --- Cleanup ---
storage="%%{cache}/shared/$UID/$SLURM_JOB_NAME.$SLURM_JOB_ID"
finish() {
  local status=$?
  set +e # a failure of the cleanup must not change the exit code of the job
%%{finish_networks}  cd /
  if ! rm -rf -- "$storage" 2>/dev/null; then # some folders may be read-only for the customer
    chmod -R u+rwX -- "$storage"
    rm -rf -- "$storage"
  fi
%%{finish_output}%%{finish_secrets}  exit "$status"
}
trap finish EXIT
ended=0 # the exit code of the job if a signal has arrived; then no further step starts
trap 'ended=130' INT
trap 'ended=143' TERM

%%{output}# --- Resources ---
export NTASKS=%%{tasks} CPUS_PER_TASK=%%{cpus_per_task} MEM_PER_CPU=%%{mem_per_cpu} GPUS=%%{gpus}
export CPUS=%%{cpus} MEM=%%{mem}

# --- Storage ---
export STORAGE_PATH="$storage"
export DEEPSQUARE_INPUT="$storage/input" DEEPSQUARE_OUTPUT="$storage/output"
export DEEPSQUARE_ENV="$storage/env"
export DEEPSQUARE_TMP="%%{cache}/persistent/user-$UID"
export DEEPSQUARE_SHARED_TMP="$DEEPSQUARE_TMP"
export DEEPSQUARE_SHARED_WORLD_TMP="%%{cache}/world-tmp"
export DEEPSQUARE_DISK_TMP="%%{cache}/disk/tmp/user-$UID"
export DEEPSQUARE_DISK_WORLD_TMP="%%{cache}/disk/world-tmp"
# For container programs that a step calls itself. Slurm removes the private /tmp after the job.
export ENROOT_CACHE_PATH="$DEEPSQUARE_DISK_TMP/enroot/cache"
export ENROOT_DATA_PATH="$DEEPSQUARE_DISK_TMP/enroot/data"
export ENROOT_RUNTIME_PATH="/tmp/enroot-$UID" APPTAINER_TMPDIR=/tmp
(umask 077 && mkdir -p -- "$storage/input" "$storage/output")
: >"$storage/env"
cd -- "$storage"
%%{input}
# --- Environment ---
# Exports the variables of the job, then what earlier steps wrote to DEEPSQUARE_ENV.%%{sources}
job_environment() {%%{arguments}
  local gridstead_line gridstead_lines=()
%%{earlier}%%{environment}  set +e # an invalid variable is reported and does not end the job
  for gridstead_line in "${gridstead_lines[@]}"; do
    if [[ $gridstead_line == \#* ]]; then continue; fi # a comment
    if [[ ! $gridstead_line =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || ! export "${gridstead_line?}"; then
      echo "ignored in DEEPSQUARE_ENV: $gridstead_line" >&2
    fi
  done
%%{export_arguments}  set -e
}

# --- Functions that run steps ---
%%{helpers}
# --- Steps ---
%%{steps}
%%{before}
# --- The job ---
%%{call}
%%{after}

# SPDX-License-Identifier: Apache-2.0
"""The text on the chain that tells a customer why a job did not succeed.

An attempt is a Slurm job that was submitted for a job of the grid.
"""

import pytest
from tests.unit.domain.builders import (
    accounting_sample,
    attempt,
    calls_of,
    job,
    journal_record,
    planned_actions,
    submitted_record,
)

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.attempt import END_STATES
from gridstead.domain.supervisor.end_text import (
    END_TEXTS,
    NEVER_STARTED,
    NO_SCRIPT,
    REFUSED_BY_SLURM,
    SIGNAL_NAMES,
    end_text,
)
from gridstead.domain.supervisor.journal import EntryKind
from gridstead.domain.transactions.calls import MAX_ERROR_BYTES

LONG_REASON = "could not run /home/user/x on node17: " + "ü" * 100


def resources(*, tasks=1, cpus=2, memory_mb=4096):
    return Resources(gpus=0, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory_mb)


def text_of(state="FAILED", *, requested=None, **changes):
    return end_text(attempt(job(), state, **changes), requested or resources())


def test_every_end_state_of_slurm_has_a_text():
    assert END_TEXTS.keys() == END_STATES.keys()
    silent_states = {state for state, text in END_TEXTS.items() if not text}
    assert {END_STATES[state] for state in silent_states} == {JobState.FINISHED}


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("COMPLETED", ""),
        ("OUT_OF_MEMORY", "killed: memory limit 8 GiB"),
        ("TIMEOUT", "time limit"),
        ("CANCELLED", "cancelled"),
        ("NODE_FAIL", "node failed"),
    ],
)
def test_text_names_the_cause_of_the_end(state, text):
    assert text_of(state) == text


@pytest.mark.parametrize(
    ("exit_code", "text"),
    [
        (2 << 8, "exit 2"),
        (255 << 8, "exit 255"),
        (137 << 8, "exit 137 (SIGKILL)"),
        (128 << 8, "exit 128"),
        (200 << 8, "exit 200"),
        (9, "killed: signal 9 (SIGKILL)"),
        (11 | 0x80, "killed: signal 11 (SIGSEGV)"),  # with a core dump
        (40, "killed: signal 40"),  # a real-time signal
        (125, "killed: memory limit 8 GiB"),  # Slurm's mark of a step without memory
        (0, "failed"),
    ],
)
def test_text_of_a_failed_job_contains_its_exit_code_or_signal(exit_code, text):
    assert text_of(exit_code=exit_code) == text


def test_text_of_a_failed_job_contains_the_number_of_its_failed_step():
    assert text_of(exit_code=2 << 8, failed_step=3) == "exit 2 in step 3"
    assert text_of(exit_code=9, failed_step=3) == "killed: signal 9 (SIGKILL) in step 3"


def test_memory_limit_is_named_if_slurm_killed_a_step_of_a_failed_job():
    """The batch script of such a job usually ends with exit code 1."""
    text = text_of(exit_code=1 << 8, is_step_out_of_memory=True)

    assert text == "killed: memory limit 8 GiB"


@pytest.mark.parametrize(
    ("requested", "text"),
    [
        (resources(cpus=1, memory_mb=256), "killed: memory limit 256 MiB"),
        (resources(cpus=3, memory_mb=512), "killed: memory limit 1536 MiB"),
        (resources(tasks=4), "killed: memory limit 8 GiB per task"),
        (resources(memory_mb=0), "killed: memory limit"),
    ],
)
def test_memory_limit_is_that_of_the_request(requested, text):
    assert text_of("OUT_OF_MEMORY", requested=requested) == text


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"])
def test_job_that_slurm_could_not_start_has_no_exit_code(state):
    assert text_of(state, started_at=None, exit_code=1 << 8) == NEVER_STARTED


@pytest.mark.parametrize("state", sorted(END_STATES))
def test_every_text_is_short_ascii(state):
    large = resources(tasks=10**6, cpus=10**6, memory_mb=10**9 + 1)
    exit_codes = [number << 8 for number in range(256)] + list(range(128))
    for exit_code in exit_codes:
        text = text_of(state, requested=large, exit_code=exit_code, failed_step=2**32 - 1)
        assert text.isascii()
        assert len(text) <= MAX_ERROR_BYTES


def test_every_signal_below_the_real_time_signals_has_a_name():
    assert sorted(SIGNAL_NAMES) == list(range(1, 32))


def test_settlement_has_the_text_of_the_end():
    our_job = job(JobState.RUNNING)
    failed_attempt = attempt(our_job, "FAILED", exit_code=2 << 8, failed_step=3)

    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        accounting_sample=accounting_sample(failed_attempt),
    )

    (call,) = calls_of(actions)
    assert call.error == "exit 2 in step 3"


def test_reason_of_the_job_definition_service_is_not_on_the_chain():
    our_job = job()
    record = journal_record(our_job, (EntryKind.SCRIPT_UNAVAILABLE, 1, None, LONG_REASON))

    (call,) = calls_of(planned_actions([our_job], [record]))

    assert call.error == NO_SCRIPT


def test_reason_of_slurm_is_not_on_the_chain():
    our_job = job(JobState.RUNNING)
    rejection = [
        (EntryKind.SUBMIT_INTENDED, 1),
        (EntryKind.SUBMIT_REJECTED, 1, None, LONG_REASON),
    ]
    record = journal_record(our_job, *rejection * 3, (EntryKind.ABSENT, 2))

    (call,) = calls_of(planned_actions([our_job], [record]))

    assert call.error == REFUSED_BY_SLURM

# SPDX-License-Identifier: Apache-2.0
"""The error text of a job on the chain, ``lastError``: why the job did not succeed.

Everyone can read the text, and each byte costs gas. So a text is short, and contains no names of
hosts, users or files. Longer texts, such as an error of Slurm, are only in the supervisor's log.
"""

from __future__ import annotations

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.supervisor.attempt import OUT_OF_MEMORY_SIGNAL, Attempt

NO_SCRIPT = "no script at the Job Definition service"
REFUSED_BY_SLURM = "refused by Slurm"
NEVER_STARTED = "could not start"

# The text for each end state of Slurm. end_text() replaces {exit} and {memory}.
END_TEXTS: dict[str, str] = {
    "COMPLETED": "",
    "FAILED": "{exit}",
    "OUT_OF_MEMORY": "killed: memory limit{memory}",
    "DEADLINE": "deadline passed",
    "TIMEOUT": "time limit",
    "CANCELLED": "cancelled",
    "NODE_FAIL": "node failed",
    "BOOT_FAIL": "node did not boot",
    "PREEMPTED": "preempted by another job",
    "REVOKED": "revoked by Slurm",
    "LAUNCH_FAILED": "node could not launch the job",
    "RECONFIG_FAIL": "node could not be reconfigured",
}
# End states of a script that ran. If an attempt in such a state has no start time, Slurm could not
# start it.
_STATES_OF_A_SCRIPT = frozenset({"COMPLETED", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"})

# The signals of Linux. The numbers above 31 are real-time signals, which have no names.
SIGNAL_NAMES: dict[int, str] = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    16: "SIGSTKFLT",
    17: "SIGCHLD",
    18: "SIGCONT",
    19: "SIGSTOP",
    20: "SIGTSTP",
    21: "SIGTTIN",
    22: "SIGTTOU",
    23: "SIGURG",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    26: "SIGVTALRM",
    27: "SIGPROF",
    28: "SIGWINCH",
    29: "SIGIO",
    30: "SIGPWR",
    31: "SIGSYS",
}
_SIGNAL_MASK = 0x7F  # the bits of a wait status that contain the signal
_SHELL_SIGNAL_BASE = 128  # A shell exits with this number plus the signal that ended its command.
_MIB_PER_GIB = 1024


def end_text(attempt: Attempt, resources: Resources) -> str:
    """Return why an ended attempt did not succeed. Empty if it succeeded.

    Args:
        attempt: An attempt in an end state.
        resources: What the customer requested.
    """
    if attempt.state in _STATES_OF_A_SCRIPT and not attempt.has_started:
        return NEVER_STARTED
    template = END_TEXTS[attempt.state]
    has_memory_signal = _signal_of(attempt) == OUT_OF_MEMORY_SIGNAL
    is_out_of_memory = attempt.is_step_out_of_memory or has_memory_signal
    if attempt.state == "FAILED" and is_out_of_memory:
        template = END_TEXTS["OUT_OF_MEMORY"]
    return template.format(exit=_exit_text(attempt), memory=_memory_text(resources))


def _exit_text(attempt: Attempt) -> str:
    code = attempt.exit_code >> 8
    signal = _signal_of(attempt)
    if signal:
        text = f"killed: signal {signal}{_signal_name(signal)}"
    elif code:
        text = f"exit {code}{_signal_name(code - _SHELL_SIGNAL_BASE)}"
    else:
        text = "failed"
    return text if attempt.failed_step is None else f"{text} in step {attempt.failed_step}"


def _signal_of(attempt: Attempt) -> int:
    """Return the signal that ended an attempt. Returns 0 if no signal ended it."""
    return attempt.exit_code & _SIGNAL_MASK


def _signal_name(signal: int) -> str:
    name = SIGNAL_NAMES.get(signal)
    return f" ({name})" if name else ""


def _memory_text(resources: Resources) -> str:
    """Return the memory of a task with a leading space. Slurm's MB are MiB."""
    memory_mib = resources.cpus_per_task * resources.memory_per_cpu_mb
    if memory_mib == 0:
        return ""
    amount = f"{memory_mib} MiB"
    if memory_mib % _MIB_PER_GIB == 0:
        amount = f"{memory_mib // _MIB_PER_GIB} GiB"
    return f" {amount}" if resources.tasks == 1 else f" {amount} per task"

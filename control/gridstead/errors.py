# SPDX-License-Identifier: Apache-2.0
"""Every error of ours. The class answers who must act; ``code`` is what people grep for.

Rule 1: adapters raise these and nothing foreign. Rule 2: raise or log, never both.
Rule 3: only ``Transient`` is ever retried.
"""

from __future__ import annotations

from dataclasses import dataclass


class GridsteadError(Exception):
    """An expected failure, told in three parts; never raised itself.

    Args:
        message: One line, lower case, no full stop: what could not be done to which object.
        detail: Facts and the peer's own words, quoted.
        hint: A full sentence on what to do, when we know.
    """

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        if type(self) is GridsteadError:
            raise TypeError("raise a subclass that says who must act")
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        parts = [self.message]
        if self.detail:
            parts.append(f"({self.detail})")
        return " ".join(parts)


class ConfigError(GridsteadError):
    """The operator must act: a setting, a key, a permission."""

    code = "config"
    exit_code = 78


class InvalidInput(GridsteadError):
    """The user must act: a workflow, an address, a label, an amount."""

    code = "invalid-input"
    exit_code = 65


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One broken rule of a workflow.

    Attributes:
        path: The place, as in ``steps[0].run.command``; empty for the whole file.
        reason: What is wrong there: what was found and what is allowed.
        hint: A full sentence on what to do, when we know.
        line: Line in the file, from 1; None when there is no file.
        rule: The rule's name for programs: ``required``, ``gte``, ``oneof`` ...; ``valid`` when it
            has none of its own.
    """

    path: str
    reason: str
    hint: str | None = None
    line: int | None = None
    rule: str = "valid"

    def __str__(self) -> str:
        place = self.path or "workflow"
        return (
            f"{place}: {self.reason}"
            if self.line is None
            else f"line {self.line}: {place}: {self.reason}"
        )


class InvalidWorkflow(InvalidInput):
    """A workflow breaks rules; all of them are told at once.

    Args:
        problems: The broken rules, in the order of the file; at least one.
    """

    code = "invalid-workflow"

    def __init__(self, *problems: Problem) -> None:
        first = problems[0]
        if len(problems) == 1:
            super().__init__(str(first), hint=first.hint)
        else:
            super().__init__(
                f"workflow breaks {len(problems)} rules", detail="; ".join(map(str, problems))
            )
        self.problems = problems


class Rejected(GridsteadError):
    """The other side said no; asking again is pointless."""

    code = "rejected"
    exit_code = 69


class TransactionReverted(Rejected):
    """A contract refused a call.

    Args:
        error_name: The contract's own error, as in its ABI; ``unknown`` when it is not in it.
        arguments: The error's arguments, as text, in order.
    """

    code = "transaction-reverted"

    def __init__(self, call: str, error_name: str, arguments: tuple[str, ...] = ()) -> None:
        super().__init__(f"contract refused {call}", detail=f"{error_name}({', '.join(arguments)})")
        self.error_name = error_name
        self.arguments = arguments


class SubmitRejected(Rejected):
    """Slurm refused a submission; nothing was queued."""

    code = "submit-rejected"


class ScriptUnavailable(Rejected):
    """The Job Definition service has no script for this job."""

    code = "script-unavailable"


class ScriptDamaged(Rejected):
    """A stored script does not open: its record was altered."""

    code = "script-damaged"


class NotAllowed(Rejected):
    """The caller is known and may not do this."""

    code = "not-allowed"


class LogFull(Rejected):
    """A job's log has reached its limit; what comes after is not kept."""

    code = "log-full"


class LogDamaged(Rejected):
    """A stored log does not open: it was altered, or sealed with another key."""

    code = "log-damaged"


class RepositoryUntrusted(Rejected):
    """What a CVMFS server gave is not what a signature or a hash says; nothing of it is kept."""

    code = "repository-untrusted"


class RepositoryIncomplete(Rejected):
    """A CVMFS server does not have what its own repository names: its publisher must act, or a
    replica's operator.
    """

    code = "repository-incomplete"


class Transient(GridsteadError):
    """Time may help. The only family that is retried."""

    code = "transient"
    exit_code = 75


class ChainUnavailable(Transient):
    """The chain's endpoint did not answer, or not with what was asked."""

    code = "chain-unavailable"


class SchedulerUnavailable(Transient):
    """Slurm, or the way to it, did not answer. It is not known whether a request took effect."""

    code = "scheduler-unavailable"


class AssociationUnknown(SchedulerUnavailable):
    """slurmctld does not know the user of a submission; nothing was queued."""

    code = "association-unknown"


class DirectoryUnavailable(Transient):
    """The LDAP directory did not answer."""

    code = "directory-unavailable"


class JobDefinitionUnavailable(Transient):
    """The Job Definition service did not answer, or refused us, which may pass."""

    code = "job-definition-unavailable"


class TunnelBroken(Transient):
    """A bore server could not be reached, or the connection to it ended."""

    code = "tunnel-broken"


class TooMuch(Transient):
    """The caller, or all callers together, ask for more than a service gives at a time."""

    code = "too-much"


class ModuleUnavailable(Transient):
    """The repository of a workflow's module did not answer, or not in time."""

    code = "module-unavailable"


class LoggerUnavailable(Transient):
    """The logger did not answer."""

    code = "logger-unavailable"


class SupervisorUnavailable(Transient):
    """The supervisor did not answer."""

    code = "supervisor-unavailable"


class SiteUnreachable(Transient):
    """Hosts of a site did not answer."""

    code = "site-unreachable"


class RepositoryUnavailable(Transient):
    """A CVMFS server did not answer, or not in time, or not with all of it."""

    code = "repository-unavailable"


class ReplicaBusy(Transient):
    """Another process works on this replica."""

    code = "replica-busy"


class StorageFull(Transient):
    """There is no room; the operator must make some, and what was begun then goes on."""

    code = "storage-full"


class UnexpectedOutput(GridsteadError):
    """A peer broke its format. Never guessed: shown to the operator with the text."""

    code = "unexpected-output"
    exit_code = 76

    def __init__(self, command: str, text: str) -> None:
        super().__init__(f"unexpected output of {command}", detail=repr(text[:500]))
        self.command = command
        self.text = text

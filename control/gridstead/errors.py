# SPDX-License-Identifier: Apache-2.0
"""The errors of the project. The class of an error tells who must act.

Each class has a ``code``, by which users can search for the error.
Rule 1: adapters convert the errors of libraries to these errors.
Rule 2: code raises an error or logs it, but not both.
Rule 3: only a ``Transient`` error is retried.
"""

from __future__ import annotations

from dataclasses import dataclass


class GridsteadError(Exception):
    """The base class of all expected errors. Only its subclasses are raised.

    Args:
        message: What could not be done, and with which object. One line, lower case, no full stop.
        detail: The facts, and the message of the peer. None if there are none.
        hint: What to do, as a full sentence. None if this is not known.
    """

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        if type(self) is GridsteadError:
            raise TypeError("cannot raise GridsteadError itself, only a subclass")
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
    """The operator must change a setting, a key or a permission."""

    code = "config"
    exit_code = 78


class InvalidInput(GridsteadError):
    """The user must correct a workflow, an address, a label or an amount."""

    code = "invalid-input"
    exit_code = 65


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowProblem:
    """A rule that a workflow breaks, and where it breaks it.

    Attributes:
        path: The field of the workflow, for example ``steps[0].run.command``. Empty for the whole
            workflow.
        reason: What is wrong: the value, and the allowed values.
        hint: What to do, as a full sentence. None if this is not known.
        line: The number of the line in the file, from 1. None if there is no file.
        rule: The name of the rule for programs, for example ``required``, ``gte`` or ``oneof``.
            ``valid`` if the rule has no name.
        changes_run: Whether the job runs differently because a key is ignored.
    """

    path: str
    reason: str
    hint: str | None = None
    line: int | None = None
    rule: str = "valid"
    changes_run: bool = False

    def __str__(self) -> str:
        text = f"{self.path or 'workflow'}: {self.reason}"
        return text if self.line is None else f"line {self.line}: {text}"


class InvalidWorkflow(InvalidInput):
    """A workflow breaks one or more rules.

    Args:
        problems: All broken rules, in the order of the file. At least one.
        warnings: What is allowed in the workflow but probably a mistake, in the order of the file.
    """

    code = "invalid-workflow"

    def __init__(
        self, *problems: WorkflowProblem, warnings: tuple[WorkflowProblem, ...] = ()
    ) -> None:
        first = problems[0]
        if len(problems) == 1:
            super().__init__(str(first), hint=first.hint)
        else:
            detail = "; ".join(map(str, problems))
            super().__init__(f"workflow breaks {len(problems)} rules", detail=detail)
        self.problems = problems
        self.warnings = warnings


class MisplacedKeys(InvalidWorkflow):
    """Keys of a workflow are ignored although they would change what the job runs.

    Args:
        problems: The keys, in the order of the file. At least one.
        warnings: The other warnings about the workflow, in the order of the file.
    """

    code = "misplaced-keys"

    def __init__(
        self, *problems: WorkflowProblem, warnings: tuple[WorkflowProblem, ...] = ()
    ) -> None:
        super().__init__(*problems, warnings=warnings)
        self.message = "the job would not run what the workflow says: keys have no effect"
        self.detail = "; ".join(map(str, problems))
        self.hint = "Correct the keys, or add --accept-misplaced to submit the job without them."


class Rejected(GridsteadError):
    """The peer refused a request, and would refuse the same request again."""

    code = "rejected"
    exit_code = 69


class TransactionReverted(Rejected):
    """A contract refused a call.

    Args:
        call: The call that the contract refused.
        error_name: The name of the contract's custom error. ``unknown`` if it is not in the ABI.
        arguments: The arguments of the custom error, as text.
    """

    code = "transaction-reverted"

    def __init__(self, call: str, error_name: str, arguments: tuple[str, ...] = ()) -> None:
        super().__init__(f"contract refused {call}", detail=f"{error_name}({', '.join(arguments)})")
        self.error_name = error_name
        self.arguments = arguments


class SubmitRejected(Rejected):
    """Slurm refused a submission. The job was not queued."""

    code = "submit-rejected"


class ScriptUnavailable(Rejected):
    """The Job Definition service has no script for this job."""

    code = "script-unavailable"


class ScriptDamaged(Rejected):
    """A stored script cannot be decrypted because its record was altered."""

    code = "script-damaged"


class NotAllowed(Rejected):
    """The caller is authenticated but not authorised."""

    code = "not-allowed"


class BenchmarksNotStarted(Rejected):
    """The benchmarks run already, or a run could not be requested."""

    code = "benchmarks-not-started"


class LogFull(Rejected):
    """A job's log has reached its size limit. Further output is discarded."""

    code = "log-full"


class LogDamaged(Rejected):
    """A stored log cannot be decrypted: it was altered, or it was encrypted with another key."""

    code = "log-damaged"


class Transient(GridsteadError):
    """The operation may succeed later. Only errors of this class are retried."""

    code = "transient"
    exit_code = 75


class ChainUnavailable(Transient):
    """The node of the chain did not answer, or could not answer the request."""

    code = "chain-unavailable"


class SchedulerUnavailable(Transient):
    """Slurm or its transport did not answer. It is not known whether the request took effect."""

    code = "scheduler-unavailable"


class AssociationUnknown(SchedulerUnavailable):
    """slurmctld has no association for the user of a submission. The job was not queued."""

    code = "association-unknown"


class DirectoryUnavailable(Transient):
    """The LDAP directory did not answer."""

    code = "directory-unavailable"


class JobDefinitionUnavailable(Transient):
    """The Job Definition service did not answer, or refused the request for now."""

    code = "job-definition-unavailable"


class TunnelBroken(Transient):
    """A bore server could not be reached, or closed the connection."""

    code = "tunnel-broken"


class LimitExceeded(Transient):
    """The caller, or all callers together, exceeded a rate limit."""

    code = "too-much"


class ModuleUnavailable(Transient):
    """A module of a workflow could not be fetched."""

    code = "module-unavailable"


class LoggerUnavailable(Transient):
    """The logger did not answer."""

    code = "logger-unavailable"


class QueueViewUnavailable(Transient):
    """The queue view of the meta-scheduler did not answer."""

    code = "queue-view-unavailable"


class SupervisorUnavailable(Transient):
    """The supervisor did not answer."""

    code = "supervisor-unavailable"


class SiteUnreachable(Transient):
    """Hosts of a site did not answer."""

    code = "site-unreachable"


class UnexpectedOutput(GridsteadError):
    """The output of a peer has an unknown format. The error contains the output."""

    code = "unexpected-output"
    exit_code = 76

    def __init__(self, command: str, text: str) -> None:
        super().__init__(f"unexpected output of {command}", detail=repr(text[:500]))
        self.command = command
        self.text = text

# SPDX-License-Identifier: Apache-2.0
"""Prints the contracts of a grid: as tables, or as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import TYPE_CHECKING

from gridstead.cli.output import credits_text, emit_json, emit_record, emit_table, print_line
from gridstead.domain.contracts.constants import CONSTANTS, Constant
from gridstead.domain.contracts.deployment import Escrow, GridState, Holder, Ownership
from gridstead.domain.contracts.releases import generation_of
from gridstead.domain.diagnostic import Diagnostic, Severity, exit_code

if TYPE_CHECKING:  # The import takes a second.
    from gridstead.adapters.contracts.administrator import AdministrationResult, SentStep
    from gridstead.adapters.contracts.steps import TransactionStep

Columns = tuple[str, ...]
Rows = list[tuple[object, ...]]

_MAX_PRINTED_BYTES = 1000  # If a transaction has more data, only the size of the data is printed.
_MIN_WEI_AS_CREDITS = 10**6  # Smaller amounts are printed in wei.
_CONSTANTS = {constant.name: constant for constant in CONSTANTS}


def constant_text(constant: Constant, value: int) -> str:
    """Return the value of a constant with its unit. Large amounts are in credits, not in wei."""
    if constant.unit != "wei":
        return f"{value} {constant.unit}"
    if value < _MIN_WEI_AS_CREDITS:
        return f"{value} wei"
    return f"{credits_text(value)} credits"


def emit_status(
    state: GridState,
    diagnostics: Sequence[Diagnostic],
    *,
    extra: Mapping[str, object],
    as_json: bool,
) -> None:
    """Print the state of the contracts and the findings of the checks."""
    if as_json:
        emit_json({**extra, **_to_json(state, diagnostics)})
        return
    emit_record(_summary(state) | dict(extra))
    for columns, rows in _tables(state):
        print_line("")
        emit_table(columns, rows)
    print_line("")
    _emit_diagnostics(diagnostics)


def _tables(state: GridState) -> tuple[tuple[Columns, Rows], ...]:
    return (
        _contract_table(state),
        _holder_table(state),
        _owner_table(state),
        _constant_table(state),
    )


def emit_plan(steps: Sequence[TransactionStep], *, as_json: bool) -> None:
    """Print the transactions that would be sent."""
    if as_json:
        emit_json({"dry_run": True, "changed": False, "steps": _steps_json(steps)})
        return
    if not steps:
        print_line("no transaction would be sent")
        return
    rows: Rows = []
    for step in steps:
        recipient = step.to or f"creates {step.creates}"
        rows.append((step.nonce, recipient, _call_text(step), step.gas or "", step.title))
    emit_table(("NONCE", "TO", "CALL", "GAS", "RESULT"), rows)
    for step in steps:
        size = (len(step.data) - len("0x")) // 2  # two hexadecimal digits per byte
        data = step.data if size <= _MAX_PRINTED_BYTES else f"{size} bytes of code and arguments"
        print_line(f"{step.nonce}: {data}")


def emit_outcome(
    outcome: AdministrationResult, *, dry_run: bool, constant: Constant | None, as_json: bool
) -> None:
    """Print the transactions that were sent, and the old and new value of ``constant``.

    In a dry run, the transactions are those that would be sent.
    """
    if as_json:
        emit_json(_outcome_json(outcome, dry_run=dry_run, constant=constant))
        return
    old_value, new_value = _constant_values(outcome, constant)
    if constant is not None and old_value is not None and new_value is not None:
        old_text = constant_text(constant, old_value)
        new_text = constant_text(constant, new_value)
        print_line(f"{constant.name} is {new_text}, it was {old_text}")
    if dry_run:
        emit_plan(outcome.steps, as_json=False)
        return
    if not outcome.steps:
        print_line("nothing to change: no transaction was sent")
        return
    for sent_step in outcome.sent_steps:
        block, gas, tx_hash = sent_step.block, sent_step.gas, sent_step.hash
        details = f"block {block}, gas {gas}, transaction {tx_hash}"
        print_line(f"{sent_step.step.title} ({details})")


def _outcome_json(
    outcome: AdministrationResult, *, dry_run: bool, constant: Constant | None
) -> dict[str, object]:
    document: dict[str, object] = {
        "dry_run": dry_run,
        "changed": bool(outcome.sent_steps),
        "steps": _steps_json(outcome.steps),
        "transactions": list(map(_sent_json, outcome.sent_steps)),
    }
    if constant is not None:
        old_value, new_value = _constant_values(outcome, constant)
        document |= {
            "constant": constant.name,
            "unit": constant.unit,
            "old": old_value,
            "new": new_value,
        }
    document["roles"] = list(map(_holder_json, outcome.after.holders))
    document["owners"] = list(map(_owner_json, outcome.after.owners))
    return document


def _sent_json(sent: SentStep) -> dict[str, object]:
    return {"title": sent.step.title, "hash": sent.hash, "block": sent.block, "gas": sent.gas}


def _constant_values(
    outcome: AdministrationResult, constant: Constant | None
) -> tuple[int | None, int | None]:
    """Return the old and the new value of a constant. An unknown value is None."""
    if constant is None:
        return None, None
    return outcome.before.constants.get(constant.name), outcome.after.constants.get(constant.name)


def _steps_json(steps: Iterable[TransactionStep]) -> list[dict[str, object]]:
    from gridstead.adapters.contracts.steps import to_json  # noqa: PLC0415 - slow import

    return list(map(to_json, steps))


def _call_text(step: TransactionStep) -> str:
    function = f"{step.contract}.{step.function}" if step.contract else step.function
    return f"{function}({', '.join(step.arguments)})"


def _summary(state: GridState) -> dict[str, object]:
    """Return the texts of the lines above the tables, by label."""
    fees = "not counted" if state.fees is None else f"{credits_text(state.fees)} credits"
    summary: dict[str, object] = {
        "chain": state.chain_id,
        "block": state.block,
        "version": state.version or "DeepSquare 1.2",
        "first block": "unknown" if state.first_block is None else state.first_block,
        "new jobs": "accepted" if state.accepts_jobs else "refused",
        "accrued fees": fees,
    }
    escrow = state.escrow
    if escrow is None:
        return summary
    coverage = "covered" if escrow.surplus >= 0 else "NOT COVERED"
    escrow_text = (
        f"{credits_text(escrow.escrowed)} credits of {escrow.hot_jobs} jobs,"
        f" {credits_text(escrow.balance)} credits in the contract: {coverage}"
    )
    return summary | {"escrow": escrow_text, "jobs": escrow.jobs}


def _contract_table(state: GridState) -> tuple[Columns, Rows]:
    rows: Rows = []
    for contract in state.contracts:
        code_hash = contract.code_hash or ""
        rows.append((contract.contract, contract.address, contract.code.value, code_hash))
    return ("CONTRACT", "ADDRESS", "CODE", "CODE HASH"), rows


def _holder_table(state: GridState) -> tuple[Columns, Rows]:
    rows: Rows = []
    for holder in sorted(state.holders, key=attrgetter("role.value", "contract", "account")):
        rows.append((holder.role.value, holder.contract, holder.account))
    return ("ROLE", "CONTRACT", "HELD BY"), rows


def _owner_table(state: GridState) -> tuple[Columns, Rows]:
    rows: Rows = []
    for ownership in state.owners:
        rows.append((ownership.contract, ownership.owner, ownership.offered_to or ""))
    return ("CONTRACT", "OWNER", "OFFERED TO"), rows


def _constant_table(state: GridState) -> tuple[Columns, Rows]:
    rows: Rows = []
    for name, value in state.constants.items():
        constant = _CONSTANTS[name]
        numbers = (value, constant.minimum, constant.maximum)
        texts = [constant_text(constant, number) for number in numbers]
        rows.append((name, *texts, constant.meaning))
    return ("CONSTANT", "VALUE", "MINIMUM", "MAXIMUM", "MEANING"), rows


def _emit_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    for diagnostic in diagnostics:
        label = "note" if diagnostic.severity is Severity.NOTE else "WRONG"
        print_line(f"{label}: {diagnostic.what}")
        if diagnostic.hint:
            print_line(f"  {diagnostic.hint}")
    if exit_code(diagnostics) == 0:
        print_line("all checks passed")


def _holder_json(holder: Holder) -> dict[str, object]:
    return asdict(holder) | {"role": holder.role.value, "given_by": holder.given_by or None}


def _owner_json(ownership: Ownership) -> dict[str, object]:
    return asdict(ownership) | {"offered_to": ownership.offered_to or None}


def _constant_json(name: str, value: int) -> dict[str, object]:
    constant = _CONSTANTS[name]
    return {
        "name": name,
        "value": value,
        "unit": constant.unit,
        "least": constant.minimum,
        "most": constant.maximum,
    }


def _escrow_json(escrow: Escrow | None) -> dict[str, object] | None:
    if escrow is None:
        return None
    return {
        "balance_wei": escrow.balance,
        "escrowed_wei": escrow.escrowed,
        "accrued_fees_wei": escrow.fees,
        "surplus_wei": escrow.surplus,
        "jobs": escrow.jobs,
        "hot_jobs": escrow.hot_jobs,
        "adds_up": escrow.surplus >= 0,
    }


def _to_json(state: GridState, diagnostics: Sequence[Diagnostic]) -> dict[str, object]:
    code = exit_code(diagnostics)
    contracts = [asdict(contract) | {"code": contract.code.value} for contract in state.contracts]
    constants = [_constant_json(name, value) for name, value in state.constants.items()]
    return {
        "chain_id": state.chain_id,
        "block": state.block,
        "version": state.version or None,
        "generation": generation_of(state.version),
        "first_block": state.first_block,
        "accepts_jobs": state.accepts_jobs,
        "contracts": contracts,
        "roles": list(map(_holder_json, state.holders)),
        "owners": list(map(_owner_json, state.owners)),
        "constants": constants,
        "accrued_fees_wei": state.fees,
        "escrow": _escrow_json(state.escrow),
        "verdict": {
            "right": code == 0,
            "exit_code": code,
            "findings": list(map(_diagnostic_json, diagnostics)),
        },
    }


def _diagnostic_json(diagnostic: Diagnostic) -> dict[str, object]:
    return {
        "kind": diagnostic.severity.name.lower(),
        "text": diagnostic.what,
        "hint": diagnostic.hint or None,
    }

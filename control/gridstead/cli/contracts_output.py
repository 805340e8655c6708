# SPDX-License-Identifier: Apache-2.0
"""How a set of contracts is shown: tables for people, one JSON document for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from gridstead.cli.output import credits_text, emit_json, emit_record, emit_table, say
from gridstead.domain.administration import CONSTANTS, Constant
from gridstead.domain.deployment import GridState
from gridstead.domain.diagnostic import Diagnostic, Severity, exit_code

if TYPE_CHECKING:  # the chain's library takes a second to import
    from gridstead.adapters.chain.administrator import AdministrationResult
    from gridstead.adapters.chain.steps import TransactionStep


_SHOWN_BYTES = 1000
_FEW_WEI = 10**6


def constant_text(constant: Constant, value: int) -> str:
    """Return a constant's value with its unit, credits for wei."""
    if constant.unit != "wei":
        return f"{value} {constant.unit}"
    return f"{value} wei" if value < _FEW_WEI else f"{credits_text(value)} credits"


def emit_status(
    state: GridState,
    diagnostics: Sequence[Diagnostic],
    *,
    extra: Mapping[str, object],
    as_json: bool,
) -> None:
    """Print a set of contracts and what is wrong with it."""
    if as_json:
        emit_json({**extra, **_to_json(state, diagnostics)})
        return
    emit_record(_summary(state) | dict(extra))
    for columns, rows in _tables(state):
        say("")
        emit_table(columns, rows)
    say("")
    _emit_diagnostics(diagnostics)


def emit_plan(steps: Sequence[TransactionStep], *, as_json: bool) -> None:
    """Print what would be sent."""
    if as_json:
        emit_json({"dry_run": True, "changed": False, "steps": _steps(steps)})
        return
    if not steps:
        say("nothing would be sent")
        return
    emit_table(
        ("NONCE", "TO", "CALL", "GAS", "AFTERWARDS"),
        [
            (one.nonce, one.to or f"creates {one.creates}", _call(one), one.gas or "", one.title)
            for one in steps
        ],
    )
    for one in steps:
        size = (len(one.data) - 2) // 2
        say(
            f"{one.nonce}: {one.data if size <= _SHOWN_BYTES else f'{size} bytes of code and arguments'}"
        )


def emit_outcome(
    outcome: AdministrationResult, *, dry_run: bool, constant: Constant | None, as_json: bool
) -> None:
    """Print what a wish came to: what was sent, and what it changed."""
    old, new = _constant_values(outcome, constant)
    if as_json:
        told: dict[str, object] = {
            "dry_run": dry_run,
            "changed": bool(outcome.done),
            "steps": _steps(outcome.steps),
        }
        told["transactions"] = [
            {"title": d.step.title, "hash": d.hash, "block": d.block, "gas": d.gas}
            for d in outcome.done
        ]
        if constant is not None:
            told |= {"constant": constant.name, "unit": constant.unit, "old": old, "new": new}
        emit_json(told | {"roles": _roles(outcome.after), "owners": _owners(outcome.after)})
        return
    if constant is not None and old is not None and new is not None:
        say(
            f"{constant.name} is {constant_text(constant, new)}, it was {constant_text(constant, old)}"
        )
    if dry_run:
        emit_plan(outcome.steps, as_json=False)
        return
    if not outcome.steps:
        say("it is so already: nothing was sent")
        return
    for one in outcome.done:
        say(f"{one.step.title} (block {one.block}, gas {one.gas}, transaction {one.hash})")


def _constant_values(
    outcome: AdministrationResult, constant: Constant | None
) -> tuple[int | None, int | None]:
    if constant is None:
        return None, None
    return outcome.before.constants.get(constant.name), outcome.after.constants.get(constant.name)


def _steps(steps: Iterable[TransactionStep]) -> list[dict[str, object]]:
    from gridstead.adapters.chain.steps import to_json  # noqa: PLC0415 - takes a second to import

    return [to_json(one) for one in steps]


def _call(step: TransactionStep) -> str:
    called = f"{step.contract}.{step.function}" if step.contract else step.function
    return f"{called}({', '.join(step.arguments)})"


def _summary(state: GridState) -> dict[str, object]:
    shown: dict[str, object] = {
        "chain": state.chain_id,
        "block": state.block,
        "version": state.version or "DeepSquare 1.2",
        "first block": "unknown" if state.first_block is None else state.first_block,
        "new jobs": "taken" if state.accepts_jobs else "refused",
        "accrued fees": "not counted"
        if state.fees is None
        else f"{credits_text(state.fees)} credits",
    }
    escrow = state.escrow
    if escrow is None:
        return shown
    sum_ = "adds up" if escrow.surplus >= 0 else "DOES NOT ADD UP"
    text = f"{credits_text(escrow.balance)} credits for {escrow.hot_jobs} jobs that lock {credits_text(escrow.escrowed)}"
    return shown | {"escrow": f"{text}: {sum_}", "jobs": escrow.jobs}


def _tables(state: GridState) -> list[tuple[tuple[str, ...], list[tuple[object, ...]]]]:
    known = {one.name: one for one in CONSTANTS}
    constants: list[tuple[object, ...]] = [
        (
            known[name].name,
            constant_text(known[name], value),
            constant_text(known[name], known[name].least),
            constant_text(known[name], known[name].most),
            known[name].meaning,
        )
        for name, value in state.constants.items()
    ]
    return [
        (
            ("CONTRACT", "ADDRESS", "CODE", "CODE HASH"),
            [
                (one.contract, one.address, one.code.value, one.code_hash or "")
                for one in state.contracts
            ],
        ),
        (
            ("ROLE", "CONTRACT", "HELD BY"),
            sorted((one.role.value, one.contract, one.account) for one in state.holders),
        ),
        (
            ("CONTRACT", "OWNER", "OFFERED TO"),
            [(one.contract, one.owner, one.offered_to or "") for one in state.owners],
        ),
        (("CONSTANT", "VALUE", "LEAST", "MOST", "MEANING"), constants),
    ]


def _emit_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    for diagnostic in diagnostics:
        label = "note" if diagnostic.severity is Severity.NOTE else "WRONG"
        say(f"{label}: {diagnostic.what}")
        if diagnostic.hint:
            say(f"  {diagnostic.hint}")
    if exit_code(diagnostics) == 0:
        say("everything is as it should be")


def _roles(state: GridState) -> list[dict[str, object]]:
    return [
        asdict(one) | {"role": one.role.value, "given_by": one.given_by or None}
        for one in state.holders
    ]


def _owners(state: GridState) -> list[dict[str, object]]:
    return [asdict(one) | {"offered_to": one.offered_to or None} for one in state.owners]


def _to_json(state: GridState, diagnostics: Sequence[Diagnostic]) -> dict[str, object]:
    known, escrow = {one.name: one for one in CONSTANTS}, state.escrow
    code = exit_code(diagnostics)
    return {
        "chain_id": state.chain_id,
        "block": state.block,
        "version": state.version or None,
        "generation": 2 if state.version else 1,
        "first_block": state.first_block,
        "accepts_jobs": state.accepts_jobs,
        "contracts": [asdict(one) | {"code": one.code.value} for one in state.contracts],
        "roles": _roles(state),
        "owners": _owners(state),
        "constants": [
            {
                "name": name,
                "value": value,
                "unit": known[name].unit,
                "least": known[name].least,
                "most": known[name].most,
            }
            for name, value in state.constants.items()
        ],
        "accrued_fees_wei": state.fees,
        "escrow": None
        if escrow is None
        else {
            "balance_wei": escrow.balance,
            "escrowed_wei": escrow.escrowed,
            "accrued_fees_wei": escrow.fees,
            "surplus_wei": escrow.surplus,
            "jobs": escrow.jobs,
            "hot_jobs": escrow.hot_jobs,
            "adds_up": escrow.surplus >= 0,
        },
        "verdict": {
            "right": code == 0,
            "exit_code": code,
            "findings": [_diagnostic_json(diagnostic) for diagnostic in diagnostics],
        },
    }


def _diagnostic_json(diagnostic: Diagnostic) -> dict[str, object]:
    return {
        "kind": diagnostic.severity.name.lower(),
        "text": diagnostic.what,
        "hint": diagnostic.hint or None,
    }

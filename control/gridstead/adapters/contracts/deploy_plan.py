# SPDX-License-Identifier: Apache-2.0
"""Plans the transactions that a deployment still needs, from the chain and the deployment file.

Nothing is sent or written here; see deploy.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.contracts import Contract
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.contracts.blueprint import (
    BLUEPRINT,
    RENUNCIATION,
    address_of,
    arguments_of,
    wiring,
)
from gridstead.adapters.contracts.deployment_file import Record
from gridstead.adapters.contracts.role_history import search
from gridstead.adapters.contracts.steps import TransactionStep, filling, role_id, to_steps
from gridstead.adapters.contracts.survey import Survey, check_release, creation_of, survey
from gridstead.domain.contracts.administration import Change
from gridstead.domain.contracts.deployment import SEALABLE, Role
from gridstead.errors import ConfigError


def plan_deployment_steps(
    node: Node, record: Record, *, operator: str, supply: int
) -> tuple[TransactionStep, ...]:
    """Return the transactions that are still missing, by nonce; the record is corrected.

    Args:
        node: The chain.
        record: The contents of the deployment file.
        operator: The wallet of the meta-scheduler service.
        supply: The credits that the admin receives when Credit is created, wei.

    Raises:
        ConfigError: If some contracts exist and are those of another release, so the set cannot be
            completed.
    """
    view = survey(node, record)
    return tuple(_Planner(node, record, view).plan_steps(operator=operator, supply=supply))


class _Planner:
    def __init__(self, node: Node, record: Record, view: Survey) -> None:
        self._node = node
        self._record = record
        self._view = view
        self._admin = record.origin.admin

    def plan_steps(self, *, operator: str, supply: int) -> Iterator[TransactionStep]:
        creations, addresses = self._creations(supply)
        if creations:
            check_release(self._node, self._view)
        changes = wiring(addresses, operator=operator, admin=self._admin)
        missing = [change for change in changes if not self._is_made(change)]
        is_seal_missing = bool(missing) and missing[-1].function == RENUNCIATION
        if is_seal_missing and not self._may_seal(addresses):
            del missing[-1]
        return self._with_fillers([*creations, *to_steps(missing, addresses, nonce=0)])

    def _creations(self, supply: int) -> tuple[list[TransactionStep], dict[str, str]]:
        """Return the creations that are missing, and the addresses of all contracts by name."""
        addresses, free, steps = dict(self._view.known), self._view.free, []
        for name in BLUEPRINT:
            if name in addresses:
                continue
            nonce = self._reserved_nonce(creation_of(name))
            if nonce is None:
                nonce, free = free, free + 1
            values = arguments_of(name, addresses, supply=supply)
            addresses[name] = address_of(self._admin, nonce)
            step = TransactionStep(
                title=creation_of(name),
                contract=name,
                to="",
                function="constructor",
                arguments=tuple(map(str, values)),
                data=artifact(name).creation(*values),
                nonce=nonce,
                creates=addresses[name],
            )
            steps.append(step)
        return steps, {name: addresses[name] for name in BLUEPRINT}

    def _with_nonces(self, steps: Iterable[TransactionStep]) -> list[TransactionStep]:
        """Return the steps with their reserved nonces, or with free ones.

        A step keeps the nonce that it was signed with: with a lower nonce it could be mined twice.
        A call that does not wait at the node must come after the steps before it, which may be
        new: the operator has changed, or the seal was only recorded.
        """
        placed: list[TransactionStep] = []
        free = self._view.free
        last_nonce = -1
        for step in steps:
            nonce = self._reserved_nonce(step.title)
            may_move = nonce in self._view.gaps and not step.creates
            if nonce is None or (may_move and last_nonce > nonce):
                nonce, free = free, free + 1
            placed.append(replace(step, nonce=nonce))
            last_nonce = max(last_nonce, nonce)
        return placed

    def _with_fillers(self, steps: Iterable[TransactionStep]) -> Iterator[TransactionStep]:
        """Yield the steps with nonces, and before a step the transactions that fill its gaps.

        A gap appears if another program's transaction is dropped from the pool after ours was
        signed with the next nonce.
        """
        placed = self._with_nonces(steps)
        taken = {step.nonce for step in placed}
        gaps = [nonce for nonce in self._view.gaps if nonce not in taken]
        for step in placed:
            while gaps and gaps[0] < step.nonce:
                yield filling(gaps.pop(0), self._admin)
            yield step

    def _reserved_nonce(self, title: str) -> int | None:
        """Return the nonce that a step was signed with, None if it was never signed or is used."""
        intent = self._record.intent(title)
        if intent is None or intent.nonce < self._view.used:
            return None
        return intent.nonce

    def _is_made(self, change: Change) -> bool:
        if change.contract not in self._view.known:
            return False
        contract = Contract(change.contract, self._view.known[change.contract])
        if change.function in {"grantRole", RENUNCIATION}:
            role, account = map(str, change.arguments)
            has_role = bool(self._read(contract, "hasRole", role_id(role), account))
            return has_role is (change.function == "grantRole")
        return str(self._read(contract, "owner")).lower() == change.arguments[0]

    def _may_seal(self, addresses: dict[str, str]) -> bool:
        """Return whether only MetaScheduler was ever granted a role in JobRepository.

        The creator of JobRepository is its admin from the start. If another account has a role,
        the seal is either permanent for that account or no seal at all.
        """
        if SEALABLE not in self._view.known:
            return True
        created = self._record.intent(creation_of(SEALABLE))
        history = search(
            self._node,
            [Contract(SEALABLE, self._view.known[SEALABLE])],
            head=self._view.head,
            first=created.block if created else None,
        )
        if history is None or not history.is_whole_of(SEALABLE):
            return False
        expected = {(Role.ADMIN, self._admin), (Role.CONTRACT, addresses["MetaScheduler"])}
        return {(grant.role, grant.account) for grant in history.grants} <= expected

    def _read(self, contract: Contract, function: str, *arguments: Any) -> Any:  # noqa: ANN401
        call = contract.read(function, *arguments)
        (answer,) = self._node.read([call], at_block=self._view.head)
        if isinstance(answer, RpcError):
            raise ConfigError(
                f"cannot use {contract.name} at {contract.address}", detail=f"it has no {function}"
            )
        return contract.decode(function, answer)

# SPDX-License-Identifier: Apache-2.0
"""Plans the transactions that a deployment still needs, from the chain and the deployment file.

This module sends and writes nothing. deploy.py carries out the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.contract import Contract
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
from gridstead.adapters.contracts.steps import TransactionStep, filler_step, role_id, to_steps
from gridstead.adapters.contracts.survey import Survey, check_release, creation_of, survey
from gridstead.domain.contracts.administration import Change
from gridstead.domain.contracts.deployment import SEALABLE, Role
from gridstead.errors import ConfigError


def plan_deployment_steps(
    node: Node, record: Record, *, operator: str, supply: int
) -> tuple[TransactionStep, ...]:
    """Return the remaining transactions, sorted by nonce, and correct the record.

    Args:
        node: A node of the chain.
        record: The contents of the deployment file.
        operator: The wallet of the meta-scheduler service.
        supply: The credits that the admin receives when Credit is created, wei.

    Raises:
        ConfigError: If contracts are missing and the existing contracts are of another release,
            so that this release cannot complete the set.
    """
    planner = _Planner(node, record, survey(node, record))
    return tuple(planner.plan_steps(operator=operator, supply=supply))


class _Planner:
    def __init__(self, node: Node, record: Record, state: Survey) -> None:
        self._node = node
        self._record = record
        self._survey = state
        self._admin = record.origin.admin

    def plan_steps(self, *, operator: str, supply: int) -> Iterator[TransactionStep]:
        creations, addresses = self._creations(supply)
        if creations:
            check_release(self._node, self._survey)
        changes = wiring(addresses, operator=operator, admin=self._admin)
        missing_changes = [change for change in changes if not self._is_in_effect(change)]
        # The seal, by which the admin renounces JobRepository, is always the last change.
        is_seal_missing = bool(missing_changes) and missing_changes[-1].function == RENUNCIATION
        if is_seal_missing and not self._may_seal(addresses):
            del missing_changes[-1]
        return self._with_fillers([*creations, *to_steps(missing_changes, addresses, nonce=0)])

    def _creations(self, supply: int) -> tuple[list[TransactionStep], dict[str, str]]:
        """Return the creations of missing contracts, and the addresses of all contracts by name."""
        addresses = dict(self._survey.known)
        next_free = self._survey.free
        steps = []
        for name in BLUEPRINT:
            if name in addresses:
                continue
            nonce = self._reserved_nonce(creation_of(name))
            if nonce is None:
                nonce = next_free
                next_free += 1
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
        """Return the steps with nonces: the nonce with which a step was signed, or a free nonce.

        A signed step keeps its nonce, so that the step is mined at most once.

        A call gets a new nonce if the node does not have its transaction and an earlier step has a
        higher nonce. This happens if the operator has changed: new grants then precede a seal that
        was recorded but not sent.
        """
        numbered_steps: list[TransactionStep] = []
        next_free = self._survey.free
        highest_nonce = -1
        for step in steps:
            nonce = self._reserved_nonce(step.title)
            may_move = nonce in self._survey.gaps and not step.creates
            if nonce is None or (may_move and highest_nonce > nonce):
                nonce = next_free
                next_free += 1
            numbered_steps.append(replace(step, nonce=nonce))
            highest_nonce = max(highest_nonce, nonce)
        return numbered_steps

    def _with_fillers(self, steps: Iterable[TransactionStep]) -> Iterator[TransactionStep]:
        """Yield the steps with nonces, and before each step the transactions that fill nonce gaps.

        A gap appears if the node drops another program's transaction after a step was signed with
        the next nonce.
        """
        numbered_steps = self._with_nonces(steps)
        step_nonces = {step.nonce for step in numbered_steps}
        gaps = [nonce for nonce in self._survey.gaps if nonce not in step_nonces]
        for step in numbered_steps:
            while gaps and gaps[0] < step.nonce:
                yield filler_step(gaps.pop(0), self._admin)
            yield step

    def _reserved_nonce(self, title: str) -> int | None:
        """Return the nonce that a step was signed with.

        Returns None if the step was never signed, or if its nonce is already used.
        """
        intent = self._record.intent(title)
        if intent is None or intent.nonce < self._survey.used:
            return None
        return intent.nonce

    def _is_in_effect(self, change: Change) -> bool:
        if change.contract not in self._survey.known:
            return False
        contract = Contract(change.contract, self._survey.known[change.contract])
        if change.function in {"grantRole", RENUNCIATION}:
            role, account = map(str, change.arguments)
            has_role = bool(self._read(contract, "hasRole", role_id(role), account))
            must_have_role = change.function == "grantRole"
            return has_role is must_have_role
        return str(self._read(contract, "owner")).lower() == change.arguments[0]

    def _may_seal(self, addresses: dict[str, str]) -> bool:
        """Return whether JobRepository can be sealed.

        The creator of JobRepository is its admin from the start, and MetaScheduler may write to it.
        If any other account was ever granted a role, JobRepository is not sealed. The seal would
        make the access of another writer permanent. Another admin could still grant roles after the
        seal.
        """
        if SEALABLE not in self._survey.known:
            return True
        creation = self._record.intent(creation_of(SEALABLE))
        history = search(
            self._node,
            [Contract(SEALABLE, self._survey.known[SEALABLE])],
            head=self._survey.head,
            first=creation.block if creation else None,
        )
        if history is None or not history.is_whole_of(SEALABLE):
            return False
        expected_grants = {(Role.ADMIN, self._admin), (Role.CONTRACT, addresses["MetaScheduler"])}
        actual_grants = {(grant.role, grant.account) for grant in history.grants}
        return actual_grants.issubset(expected_grants)

    def _read(self, contract: Contract, function: str, *arguments: Any) -> Any:  # noqa: ANN401
        call = contract.read(function, *arguments)
        (answer,) = self._node.read([call], at_block=self._survey.head)
        if isinstance(answer, RpcError):
            raise ConfigError(
                f"cannot use {contract.name} at {contract.address}", detail=f"it has no {function}"
            )
        return contract.decode(function, answer)

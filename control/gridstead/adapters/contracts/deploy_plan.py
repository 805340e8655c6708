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
from gridstead.adapters.contracts.survey import Survey, check_release, creation_title, survey
from gridstead.domain.contracts.administration import Change
from gridstead.domain.contracts.deployment import SEALABLE, Role
from gridstead.errors import ConfigError


def plan_deployment_steps(
    node: Node, record: Record, *, operator: str, supply: int
) -> tuple[TransactionStep, ...]:
    """Return the remaining transactions in the order in which they are sent.

    Corrects the record: updates the contracts that exist and the blocks of mined transactions, and
    removes the intents of transactions that a contract refused. Does not write the file.

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
        # The last change is always the renunciation: the admin gives up its role in JobRepository.
        # The renunciation seals JobRepository, because no account can grant roles afterwards.
        is_renunciation_missing = (
            bool(missing_changes) and missing_changes[-1].function == RENUNCIATION
        )
        if is_renunciation_missing and not self._may_renounce(addresses):
            del missing_changes[-1]
        return self._with_fillers([*creations, *to_steps(missing_changes, addresses, nonce=0)])

    def _creations(self, supply: int) -> tuple[list[TransactionStep], dict[str, str]]:
        """Return the creations of missing contracts, and the addresses of all contracts by name."""
        addresses = dict(self._survey.known)
        next_free_nonce = self._survey.next_free_nonce
        steps = []
        for name in BLUEPRINT:
            if name in addresses:
                continue
            nonce = self._reserved_nonce(creation_title(name))
            if nonce is None:
                nonce = next_free_nonce
                next_free_nonce += 1
            values = arguments_of(name, addresses, supply=supply)
            addresses[name] = address_of(self._admin, nonce)
            step = TransactionStep(
                title=creation_title(name),
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

        The exception is a call whose signed transaction the node does not have. If an earlier step
        has a higher nonce, the call gets a new nonce, because it must be mined after that step.
        This happens if the operator has changed: the new grants must be mined before the
        renunciation, which an earlier run has signed but the node does not have.
        """
        numbered_steps: list[TransactionStep] = []
        next_free_nonce = self._survey.next_free_nonce
        highest_nonce = -1
        for step in steps:
            nonce = self._reserved_nonce(step.title)
            may_change_nonce = nonce in self._survey.gaps and not step.creates
            if nonce is None or (may_change_nonce and highest_nonce > nonce):
                nonce = next_free_nonce
                next_free_nonce += 1
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
        recorded_intent = self._record.intent(title)
        if recorded_intent is None or recorded_intent.nonce < self._survey.used_nonce_count:
            return None
        return recorded_intent.nonce

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

    def _may_renounce(self, addresses: dict[str, str]) -> bool:
        """Return whether the admin may renounce its role in JobRepository, which seals it.

        The creator of JobRepository is its admin from the start, and MetaScheduler may write to it.
        If any other account was ever granted a role, JobRepository is not sealed. The seal would
        make the access of another writer permanent. Another admin could still grant roles after the
        seal.
        """
        if SEALABLE not in self._survey.known:
            return True
        creation = self._record.intent(creation_title(SEALABLE))
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

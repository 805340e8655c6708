# SPDX-License-Identifier: Apache-2.0
"""Puts the contracts of a new grid on a chain.

The plan is made from what the chain and the deployment file say, one transaction is sent, and the
plan is made again: a deployment that was cut short anywhere goes on with the rest. Nothing is
created twice, see deployment_file.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.blueprint import (
    BLUEPRINT,
    RENUNCIATION,
    address_of,
    arguments_of,
    wiring,
)
from gridstead.adapters.chain.contracts import Contract
from gridstead.adapters.chain.deployment_file import (
    Intent,
    Origin,
    Record,
    alone,
    last_aside,
    read,
    set_aside,
    write,
)
from gridstead.adapters.chain.direct import DirectSender
from gridstead.adapters.chain.encode import Payload
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.chain.role_history import search
from gridstead.adapters.chain.steps import TransactionStep, filling, role_id, to_steps
from gridstead.adapters.chain.survey import Survey, check_release, creation_of, survey
from gridstead.adapters.chain.wallet import Wallet
from gridstead.domain.administration import Change
from gridstead.domain.deployment import SEALABLE, Role
from gridstead.domain.job import Block
from gridstead.domain.sending import Taken
from gridstead.errors import ChainUnavailable, ConfigError, TransactionReverted

WIRING_GAS = (
    100_000  # more than a grant takes; a node cannot estimate a call of what is not there yet
)
ATTEMPTS = 10  # transactions in a row that get lost: other programs use the wallet
TIMEOUT_S = 300.0


class Deployment:
    """A grid's contracts in the making.

    Args:
        node: The chain.
        admin: Pays, and owns the contracts afterwards.
        path: The deployment file.
        tell: Called with a line per transaction that is sent, and one per step that is done.
        renew: On another chain than the file's, or with another admin: keep the file under another
            name and deploy anew, as is right for a development chain, instead of refusing. A chain
            that is back gets its file back.

    Raises:
        ConfigError: The file cannot be read or is of another chain or admin.
    """

    def __init__(
        self,
        node: Node,
        admin: Wallet,
        path: Path,
        *,
        tell: Callable[[str], None],
        renew: bool = False,
    ) -> None:
        self._node = node
        self._direct = DirectSender(node, admin, timeout_s=TIMEOUT_S)
        self._admin = admin
        self._path = path
        self._tell = tell
        self._origin = Origin(
            chain_id=int(node.ask("eth_chainId"), 16),
            genesis=node.ask("eth_getBlockByNumber", "0x0", False)["hash"],
            admin=admin.address,
        )
        self._renew = renew
        self._old: Record | None = None
        self._record = self._load()

    def plan(self, *, operator: str, supply: int) -> tuple[TransactionStep, ...]:
        """Return what is still to be sent; nothing is written or sent.

        Args:
            operator: The wallet of the meta-scheduler service: may match jobs and approve
                providers.
            supply: Credits that the admin gets when Credit is created, wei.

        Raises:
            ConfigError: Some contracts are there and are another release's, so a whole set cannot
                be made of them.
        """
        found = survey(self._node, self._record)
        creations, addresses = self._creations(found, supply)
        if creations:
            check_release(self._node, found)
        wanted = wiring(addresses, operator=operator, admin=self._admin.address)
        missing = [one for one in wanted if not self._is_so(one, found)]
        if (
            missing
            and missing[-1].function == RENUNCIATION
            and not self._may_seal(addresses, found)
        ):
            del missing[-1]
        return tuple(self._placed((*creations, *to_steps(missing, addresses, nonce=0)), found))

    def estimated(self, steps: Iterable[TransactionStep]) -> tuple[TransactionStep, ...]:
        """Return steps with the gas that the node thinks they take, where it can know that."""
        told = []
        for step in steps:
            transaction = {"from": self._admin.address, "data": step.data} | (
                {"to": step.to} if step.to else {}
            )
            asked = not step.to or step.contract in self._record.contracts
            (answer,) = self._node.batch([("eth_estimateGas", [transaction])] if asked else []) or (
                None,
            )
            told.append(replace(step, gas=int(answer, 16)) if isinstance(answer, str) else step)
        return tuple(told)

    def run(self, *, operator: str, supply: int) -> dict[str, str]:
        """Send what is missing, one after the other, and return the addresses by contract name,
        lower case.

        Arguments and errors are those of ``plan``; besides:

        Raises:
            InUse: Another run is at work.
            ChainUnavailable: A transaction was not mined in time; the next run goes on from there.
            ConfigError: The wallet cannot pay for all of it; nothing was sent.
        """
        with alone(self._path):
            self._record = self._load()  # another run may have written since
            steps = self.plan(operator=operator, supply=supply)
            if steps:
                self._admin.open()
                self._check_coins(self.estimated(steps))
            total, lost = len(steps), 0
            while steps:
                self._tell(f"[{total - len(steps) + 1}/{total}] sending: {steps[0].title}")
                lost = 0 if self._perform(steps[0]) else lost + 1
                if lost == ATTEMPTS:
                    detail = "another program uses the same wallet, or the node is behind"
                    raise ChainUnavailable(
                        f"could not see the end of {steps[0].title}", detail=detail
                    )
                steps = self.plan(operator=operator, supply=supply)
                total = max(total, len(steps))
            self._finish(supply)
            return dict(self._record.contracts)

    def _load(self) -> Record:
        origin, found = self._origin, read(self._path)
        if found is None:
            return Record(origin=origin, contracts={}, intents=[])
        if found.origin == origin:
            return found
        if self._renew:
            self._old = found
            return last_aside(self._path, origin) or Record(origin=origin, contracts={}, intents=[])
        wrong = [
            key
            for key in ("chain_id", "genesis", "admin")
            if getattr(found.origin, key) != getattr(origin, key)
        ]
        detail = ", ".join(
            f"its {k} is {getattr(found.origin, k)}, here it is {getattr(origin, k)}" for k in wrong
        )
        hint = "Use the chain and the wallet that it was begun with, or another file to deploy a new set."
        raise ConfigError(f"the deployment {self._path} is another one", detail=detail, hint=hint)

    def _creations(
        self, found: Survey, supply: int
    ) -> tuple[list[TransactionStep], dict[str, str]]:
        addresses, free, steps = dict(found.known), found.free, []
        for name in BLUEPRINT:
            if name in addresses:
                continue
            nonce = self._reserved(creation_of(name), found)
            if nonce is None:
                nonce, free = free, free + 1
            values = arguments_of(name, addresses, supply=supply)
            addresses[name] = address_of(self._admin.address, nonce)
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

    def _placed(self, steps: Iterable[TransactionStep], found: Survey) -> Iterable[TransactionStep]:
        """Yield steps with the nonces that were meant for them, or else free ones, and before them
        what fills gaps.

        Another program's transaction may be gone from the pool after ours was signed with the next
        nonce. Ours keeps its nonce: with a lower one it could be mined twice. A call that does not
        wait goes after those before it, which may be new: another wallet is to be the
        meta-scheduler's, and the seal was only written down.
        """
        placed: list[TransactionStep] = []
        free = found.free
        for step in steps:
            nonce = self._reserved(step.title, found)
            is_early = (
                nonce in found.gaps
                and not step.creates
                and any(one.nonce > nonce for one in placed)
            )
            if nonce is None or is_early:
                nonce, free = free, free + 1
            placed.append(replace(step, nonce=nonce))
        taken = {one.nonce for one in placed}
        gaps = [one for one in found.gaps if one not in taken]
        for step in placed:
            while gaps and gaps[0] < step.nonce:
                yield filling(gaps.pop(0), self._admin.address)
            yield step

    def _reserved(self, title: str, found: Survey) -> int | None:
        intent = self._record.intent(title)
        return intent.nonce if intent is not None and intent.nonce >= found.used else None

    def _is_so(self, change: Change, found: Survey) -> bool:
        if change.contract not in found.known:
            return False
        contract = Contract(change.contract, found.known[change.contract])
        if change.function in {"grantRole", RENUNCIATION}:
            role, account = map(str, change.arguments)
            has = bool(self._ask(contract, found.head, "hasRole", role_id(role), account))
            return has is (change.function == "grantRole")
        return str(self._ask(contract, found.head, "owner")).lower() == change.arguments[0]

    def _may_seal(self, addresses: dict[str, str], found: Survey) -> bool:
        """Return whether events tell that nobody but MetaScheduler was ever given a role in
        JobRepository.

        Its creator is admin from the beginning. A seal over anybody else would be for good, or
        would be none.
        """
        if SEALABLE not in found.known:
            return True
        created = self._record.intent(creation_of(SEALABLE))
        history = search(
            self._node,
            [Contract(SEALABLE, found.known[SEALABLE])],
            head=found.head,
            first=created.block if created else None,
        )
        if history is None or not history.is_whole_of(SEALABLE):
            return False
        expected = {(Role.ADMIN, self._admin.address), (Role.CONTRACT, addresses["MetaScheduler"])}
        return {(one.role, one.account) for one in history.grants} <= expected

    def _ask(self, contract: Contract, head: Block, function: str, *arguments: Any) -> Any:  # noqa: ANN401
        (answer,) = self._node.read([contract.read(function, *arguments)], at_block=head)
        if isinstance(answer, RpcError):
            raise ConfigError(
                f"cannot use {contract.name} at {contract.address}", detail=f"it has no {function}"
            )
        return contract.decode(function, answer)

    def _check_coins(self, steps: tuple[TransactionStep, ...]) -> None:
        price = self._direct.fees().max_fee
        needed = sum(step.gas or WIRING_GAS for step in steps) * price
        has = int(self._node.ask("eth_getBalance", self._admin.address, "latest"), 16)
        if has < needed:
            detail = f"{len(steps)} transactions take up to {needed} wei at {price} wei per gas, it has {has} wei"
            hint = "Send coins of the chain to the wallet."
            raise ConfigError(
                f"{self._admin.address} cannot pay for the deployment", detail=detail, hint=hint
            )

    def _perform(self, step: TransactionStep) -> bool:
        """Send a step and wait for it; return whether it was mined, else its nonce was used for
        something else.
        """
        earlier = self._record.intent(step.title)
        same = earlier if earlier is not None and earlier.nonce == step.nonce else None
        payload = Payload(to=step.to, data=step.data, gas=None)
        sent = (same.gas, same.fees) if same else None
        draft = self._direct.draft(payload, nonce=step.nonce, name=step.title, earlier=sent)
        hashes = tuple(dict.fromkeys([*(same.hashes if same else ()), draft.hash]))
        fees = draft.fees
        intent = Intent(
            step=step.title,
            nonce=step.nonce,
            hashes=hashes,
            gas=draft.gas,
            max_fee=fees.max_fee,
            tip=fees.tip,
        )
        self._keep(intent)
        if self._direct.give(draft) is Taken.STALE:
            return False
        receipt = self._receipt(intent)
        if receipt is None:
            return False
        block = int(receipt["blockNumber"], 16)
        self._keep(replace(intent, block=block), done=step)
        self._tell(
            f"{step.title}: done in block {block}{f', at {step.creates}' if step.creates else ''}"
        )
        return True

    def _receipt(self, intent: Intent) -> dict[str, Any] | None:
        try:
            return self._direct.wait(intent.hashes, intent.nonce, name=intent.step)
        except TransactionReverted:
            self._record.intents = [
                one for one in self._record.intents if one.nonce != intent.nonce
            ]
            self._write()
            raise

    def _keep(self, intent: Intent, *, done: TransactionStep | None = None) -> None:
        others = [
            one
            for one in self._record.intents
            if (one.step, one.nonce) != (intent.step, intent.nonce)
        ]
        self._record.intents = [*others, intent]
        if done is not None and done.creates:
            self._record.contracts[done.contract] = done.creates
        self._write()

    def _finish(self, supply: int) -> None:
        """Write what was found without being sent by this run, and tell if an earlier one gave the
        admin other credits.

        It may have sent the creation of Credit, whose place another one can take only if it is not
        mined first.
        """
        if read(self._path) != self._record:
            self._write()
        created = self._record.intent(creation_of("Credit"))
        asked = [("eth_getTransactionByHash", [one]) for one in (created.hashes if created else ())]
        for answer in self._node.batch(asked):
            if (
                isinstance(answer, dict)
                and answer.get("blockNumber")
                and int(answer["input"][-64:], 16) != supply
            ):
                given = int(answer["input"][-64:], 16)
                self._tell(
                    f"Credit was created with {given} wei before, so a supply of {supply} wei changes nothing"
                )

    def _write(self) -> None:
        if self._old is not None:
            set_aside(self._path, self._old)
            self._old = None
        write(self._path, self._record)

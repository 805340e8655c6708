# SPDX-License-Identifier: Apache-2.0
"""Deploys the contracts of a new grid.

A step is one transaction. The remaining steps are planned from the chain and the deployment file,
one transaction is sent, and the steps are planned again. Therefore an interrupted deployment
continues with the remaining steps. deployment_file.py describes why no contract is created twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gridstead.adapters.chain.contract import Payload
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.contracts.deploy_plan import plan_deployment_steps
from gridstead.adapters.contracts.deployment_file import (
    Intent,
    Origin,
    Record,
    locked,
    read,
    read_renamed,
    rename_file,
    write,
)
from gridstead.adapters.contracts.steps import TransactionStep
from gridstead.adapters.contracts.survey import creation_title
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.transactions.outbox import Fees, SendResult
from gridstead.errors import ChainUnavailable, ConfigError, TransactionReverted

# Assumed gas of a call of a contract that does not exist yet. A node cannot estimate this gas. The
# grant of a role uses less gas.
WIRING_GAS = 100_000
# A run gives up after this number of consecutive failed steps, because another program probably
# uses the wallet.
ATTEMPTS = 10
TIMEOUT_S = 300.0


class Deployment:
    """The deployment of one grid's contracts.

    Args:
        node: A node of the chain.
        admin: The wallet that pays, and that owns the contracts afterwards.
        path: The deployment file.
        report: Called with a line when a transaction is sent and when it is mined.
        renew: What to do if the file is of another chain or admin. If false, fail. If true, rename
            the file and deploy again, as needed on a development chain. If an earlier chain is used
            again, its renamed file is read.

    Raises:
        ConfigError: If the file cannot be read, or if it is of another chain or admin and ``renew``
            is false.
    """

    def __init__(
        self,
        node: Node,
        admin: Wallet,
        path: Path,
        *,
        report: Callable[[str], None],
        renew: bool = False,
    ) -> None:
        self._node = node
        self._direct = DirectSender(node, admin, timeout_s=TIMEOUT_S)
        self._admin = admin
        self._path = path
        self._report = report
        self._origin = Origin(
            chain_id=int(node.ask("eth_chainId"), 16),
            genesis=node.ask("eth_getBlockByNumber", "0x0", False)["hash"],
            admin=admin.address,
        )
        self._renew = renew
        self._replaced_record: Record | None = None
        self._record = self._load()

    def plan_steps(self, *, operator: str, supply: int) -> tuple[TransactionStep, ...]:
        """Return the remaining transactions. This method writes and sends nothing.

        Args:
            operator: The wallet of the meta-scheduler service, which may match jobs and approve
                providers.
            supply: The credits that the admin receives when Credit is created, wei.

        Raises:
            ConfigError: If contracts are missing and the existing contracts are of another release,
                so that this release cannot complete the set.
        """
        return plan_deployment_steps(self._node, self._record, operator=operator, supply=supply)

    def with_gas(self, steps: Iterable[TransactionStep]) -> tuple[TransactionStep, ...]:
        """Return the steps with the node's gas estimates, where the node can estimate the gas."""
        return tuple(map(self._with_gas, steps))

    def run(self, *, operator: str, supply: int) -> dict[str, str]:
        """Send the remaining transactions one by one.

        Args:
            operator: As in ``plan_steps``.
            supply: As in ``plan_steps``.

        Returns:
            The addresses by contract name, lower case.

        Raises:
            InUse: If another run is active.
            ChainUnavailable: If a transaction was not mined in time. The next run continues with
                this transaction.
            TransactionReverted: If a contract refuses a transaction.
            ConfigError: As in ``plan_steps``, or if the wallet cannot pay for all transactions. In
                both cases no transaction is sent.
        """
        with locked(self._path):
            self._record = self._load()  # another run may have written the file
            steps = self.plan_steps(operator=operator, supply=supply)
            if steps:
                self._admin.open()
                self._check_coins(self.with_gas(steps))
            total, failed_attempts = len(steps), 0
            while steps:
                position = total - len(steps) + 1
                self._report(f"[{position}/{total}] sending: {steps[0].title}")
                if self._perform(steps[0]):
                    failed_attempts = 0
                else:
                    failed_attempts += 1
                if failed_attempts == ATTEMPTS:
                    detail = "another program uses the same wallet, or the node is behind"
                    raise ChainUnavailable(f"could not confirm {steps[0].title}", detail=detail)
                steps = self.plan_steps(operator=operator, supply=supply)
                total = max(total, len(steps))
            self._finish(supply)
            return dict(self._record.contracts)

    def _load(self) -> Record:
        origin, record = self._origin, read(self._path)
        empty_record = Record(origin=origin, contracts={}, intents=[])
        if record is None:
            return empty_record
        if record.origin == origin:
            return record
        if self._renew:
            self._replaced_record = record
            return read_renamed(self._path, origin) or empty_record
        differences = []
        for key in ("chain_id", "genesis", "admin"):
            recorded_value = getattr(record.origin, key)
            current_value = getattr(origin, key)
            if recorded_value != current_value:
                differences.append(f"its {key} is {recorded_value}, here it is {current_value}")
        hint = (
            "Use the chain and the wallet that the deployment was started with,"
            " or another file to deploy a new set."
        )
        raise ConfigError(
            f"the deployment {self._path} is of another chain or wallet",
            detail=", ".join(differences),
            hint=hint,
        )

    def _with_gas(self, step: TransactionStep) -> TransactionStep:
        if step.to and step.contract not in self._record.contracts:
            return step
        transaction = {"from": self._admin.address, "data": step.data}
        if step.to:
            transaction["to"] = step.to
        (answer,) = self._node.batch([("eth_estimateGas", [transaction])])
        return replace(step, gas=int(answer, 16)) if isinstance(answer, str) else step

    def _check_coins(self, steps: tuple[TransactionStep, ...]) -> None:
        price = self._direct.fees().max_fee
        needed_wei = sum(step.gas or WIRING_GAS for step in steps) * price
        balance = int(self._node.ask("eth_getBalance", self._admin.address, "latest"), 16)
        if balance < needed_wei:
            detail = (
                f"{len(steps)} transactions cost up to {needed_wei} wei at {price} wei per gas,"
                f" the wallet has {balance} wei"
            )
            hint = "Send coins of the chain to the wallet."
            raise ConfigError(
                f"{self._admin.address} cannot pay for the deployment", detail=detail, hint=hint
            )

    def _perform(self, step: TransactionStep) -> bool:
        """Send a step and wait until it is mined.

        Returns:
            Whether the step was mined. If not, another transaction has used its nonce.
        """
        earlier_hashes: tuple[str, ...] = ()
        earlier: tuple[int, Fees] | None = None
        recorded_intent = self._record.intent(step.title)
        if recorded_intent is not None and recorded_intent.nonce == step.nonce:
            earlier_hashes = recorded_intent.hashes
            earlier = (recorded_intent.gas, recorded_intent.fees)
        payload = Payload(to=step.to, data=step.data, gas=None)
        draft = self._direct.draft(payload, nonce=step.nonce, name=step.title, earlier=earlier)
        intent = Intent(
            step=step.title,
            nonce=step.nonce,
            hashes=tuple(dict.fromkeys([*earlier_hashes, draft.hash])),
            gas=draft.gas,
            max_fee=draft.fees.max_fee,
            tip=draft.fees.tip,
        )
        self._record_intent(intent)
        if self._direct.submit(draft) is SendResult.NONCE_USED:
            return False
        receipt = self._receipt(intent)
        if receipt is None:
            return False
        block = int(receipt["blockNumber"], 16)
        self._record_intent(replace(intent, block=block), mined_step=step)
        address = f", at {step.creates}" if step.creates else ""
        self._report(f"{step.title}: done in block {block}{address}")
        return True

    def _receipt(self, intent: Intent) -> dict[str, Any] | None:
        try:
            return self._direct.wait(intent.hashes, intent.nonce, name=intent.step)
        except TransactionReverted:
            intents = self._record.intents
            self._record.intents = [other for other in intents if other.nonce != intent.nonce]
            self._write()
            raise

    def _record_intent(self, intent: Intent, *, mined_step: TransactionStep | None = None) -> None:
        """Write an intent to the file. It replaces an intent with the same step and nonce."""
        key = (intent.step, intent.nonce)
        other_intents = [
            other for other in self._record.intents if (other.step, other.nonce) != key
        ]
        self._record.intents = [*other_intents, intent]
        if mined_step is not None and mined_step.creates:
            self._record.contracts[mined_step.contract] = mined_step.creates
        self._write()

    def _finish(self, supply: int) -> None:
        """Write the record, and report if Credit was created with another supply.

        The supply differs if an earlier run with another supply sent the mined transaction.
        """
        if read(self._path) != self._record:
            self._write()
        creation = self._record.intent(creation_title("Credit"))
        hashes = creation.hashes if creation else ()
        requests = [("eth_getTransactionByHash", [tx_hash]) for tx_hash in hashes]
        for answer in self._node.batch(requests):
            if not isinstance(answer, dict) or not answer.get("blockNumber"):
                continue
            # The supply is the only argument of the constructor: the last 32 bytes of the data.
            minted_supply = int(answer["input"][-64:], 16)
            if minted_supply != supply:
                self._report(
                    f"Credit was created with {minted_supply} wei by an earlier run,"
                    f" so the supply of {supply} wei is not used"
                )

    def _write(self) -> None:
        if self._replaced_record is not None:
            rename_file(self._path, self._replaced_record)
            self._replaced_record = None
        write(self._path, self._record)

# SPDX-License-Identifier: Apache-2.0
"""A client of the chain: it sends one transaction per block, and reads results and views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tests.contracts.ledger.calls import Call
from tests.contracts.ledger.model import LedgerEvent
from tests.contracts.ledger.views import View

from gridstead.adapters.chain.abi import artifact, reason
from gridstead.adapters.chain.contract import Payload
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.transactions.account import to_fields
from gridstead.domain.transactions.outbox import Fees

GAS = 20_000_000
FEES = Fees(max_fee=10**12, tip=10**9)
# The options of debug_traceTransaction that return a transaction's outermost call without its inner
# calls.
_TOP_CALL = {"tracer": "callTracer", "tracerConfig": {"onlyTopCall": True}}


@dataclass(frozen=True, slots=True)
class MinedCall:
    """The result of a call on the chain. ``reason`` is None if the call was not refused."""

    reason: tuple[str, tuple[str, ...]] | None
    block: int
    time: int
    events: tuple[LedgerEvent, ...]


class Chain:
    """A chain that mines a block for each transaction.

    Args:
        node: The anvil node.
        chain_id: The chain's id.
        wallets: The wallets that send calls.
    """

    def __init__(self, node: Node, chain_id: int, wallets: Iterable[Wallet]) -> None:
        self._node = node
        self._chain_id = chain_id
        self._wallets = {wallet.address: wallet for wallet in wallets}
        self._nonces = dict.fromkeys(self._wallets, 0)
        self._addresses: dict[str, str] = {}
        self._snapshot: tuple[str, dict[str, int]] | None = None

    def head(self) -> tuple[int, int]:
        """Return the number and the Unix time of the newest block."""
        block = self._node.ask("eth_getBlockByNumber", "latest", False)
        return int(block["number"], 16), int(block["timestamp"], 16)

    def create(self, sender: str, name: str, *arguments: Any) -> str:
        """Deploy a contract and return its address, lower case."""
        receipt = self._transact(sender, "", artifact(name).creation(*arguments))
        self._addresses[name] = receipt["contractAddress"].lower()
        return self._addresses[name]

    def send(self, call: Call, *, time: int) -> MinedCall:
        """Mine ``call.blocks - 1`` empty blocks, then the call. All blocks get this Unix time."""
        self._node.ask("evm_setNextBlockTimestamp", time)
        for _ in range(call.blocks - 1):
            self._node.ask("evm_mine")
            self._node.ask("evm_setNextBlockTimestamp", time)
        receipt = self._transact(call.sender, self._addresses[call.contract], call.data())
        is_refused = int(receipt["status"], 16) == 0
        return MinedCall(
            reason=self._reason(receipt["transactionHash"]) if is_refused else None,
            block=int(receipt["blockNumber"], 16),
            time=_to_int(receipt["blockTimestamp"]),
            events=tuple(map(self._event, receipt["logs"])),
        )

    def read(self, views: list[View]) -> list[tuple[Any, ...]]:
        """Return the results of these view functions at the newest block."""
        requests = []
        for view in views:
            data = _call_data(view.contract, view.function, view.arguments)
            call = {"to": self._addresses[view.contract], "data": data}
            requests.append(("eth_call", [call, "latest"]))
        return list(map(_result_of, views, self._node.batch(requests)))

    def save(self) -> None:
        """Take a snapshot of the chain."""
        self._snapshot = (self._node.ask("evm_snapshot"), dict(self._nonces))

    def restore(self) -> None:
        """Restore the snapshot, and take it again, because the node deletes a restored snapshot."""
        snapshot_id, self._nonces = self._snapshot
        self._node.ask("evm_revert", snapshot_id)
        self.save()

    def _transact(self, sender: str, to: str, data: str) -> Mapping[str, Any]:
        payload = Payload(to=to, data=data, gas=None)
        fields = to_fields(
            payload, chain_id=self._chain_id, nonce=self._nonces[sender], gas=GAS, fees=FEES
        )
        self._nonces[sender] += 1
        return self._node.ask(
            "eth_sendRawTransactionSync", self._wallets[sender].sign_transaction(fields).raw
        )

    def _reason(self, transaction_hash: str) -> tuple[str, tuple[str, ...]]:
        trace = self._node.ask("debug_traceTransaction", transaction_hash, _TOP_CALL)
        return reason(bytes.fromhex(trace.get("output", "0x")[2:]))

    def _event(self, log: Mapping[str, Any]) -> LedgerEvent:
        names = {address: name for name, address in self._addresses.items()}
        contract = names[log["address"].lower()]
        by_topic = {event.topic: event for event in artifact(contract).events.values()}
        event_abi = by_topic[log["topics"][0]]
        values = tuple(event_abi.decode(log).values())
        if event_abi.name == "BatchElementSkipped":
            job_id, refusal = values
            values = (job_id, reason(refusal))
        return LedgerEvent(contract, event_abi.name, values)


@lru_cache(maxsize=4096)
def _call_data(contract: str, function: str, arguments: tuple[Any, ...]) -> str:
    return artifact(contract).functions[function].encode(*arguments)


def _result_of(view: View, raw: str | RpcError) -> tuple[Any, ...]:
    assert isinstance(raw, str), f"{view.function}{view.arguments} did not answer: {raw}"
    return _decode_result(view.contract, view.function, raw)


@lru_cache(maxsize=4096)
def _decode_result(contract: str, function: str, raw: str) -> tuple[Any, ...]:
    return artifact(contract).functions[function].decode(bytes.fromhex(raw[2:]))


def _to_int(value: int | str) -> int:
    # The field is a number or hexadecimal text with 0x.
    return value if isinstance(value, int) else int(value, 16)

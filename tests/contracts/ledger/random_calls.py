# SPDX-License-Identifier: Apache-2.0
"""Random calls of the contracts' functions. Many arguments are at or near a bound."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

from tests.contracts.ledger import permit, setup
from tests.contracts.ledger.access import ADMIN_ROLE, META_SCHEDULER_ROLE
from tests.contracts.ledger.calls import MODEL_FUNCTIONS, Call
from tests.contracts.ledger.model import MAX_UINT, ContractModel
from tests.contracts.ledger.setup import Accounts
from tests.contracts.ledger.state import NOBODY
from tests.devnet import COIN

from gridstead.adapters.chain.abi import artifact

# The ABI types of four structs.
DEFINITION = (
    "(uint64,uint64,uint64,uint64,string,uint8,(string,string)[],((string,string),bytes2)[])"
)
HARDWARE = "(uint64,uint64[],uint64[],uint64[])"
PRICES = "(uint256,uint256,uint256)"
LABELS = "(string,string)[]"
# Only contracts of the grid may call these contracts. The admin sends no calls to them, because the
# admin could grant itself a role and break the assumptions of the model.
INTERNAL_CONTRACTS = ("JobRepository", "ProviderJobQueues")

SCRIPT = "abcdefghijklmnopqrstuv"
# GPUs, MB per CPU, CPUs per task, tasks, script id, storage type, labels and conditions.
EXAMPLE_DEFINITION = (1, 100, 2, 3, SCRIPT, 4, (), ())
LABELLED_DEFINITION = (0, 1, 1, 1, SCRIPT, 0, (("os", "linux"),), ((("cpus", "64"), b">="),))
DEFINITIONS = (
    EXAMPLE_DEFINITION,
    LABELLED_DEFINITION,
    (0, 1, 1, 1, "", 0, (), ()),
    (2**20, 2**19, 2**10, 2**10, "x" * 128, 1, (("k" * 64, "v" * 64),) * 16, ()),
    (0, 7, 3, 5, SCRIPT, 2, (), ((("ö", "日本"), b"in"),) * 16),
)
BAD_DEFINITIONS = (
    (1, 0, 2, 3, SCRIPT, 4, (), ()),
    (1, 100, 0, 3, SCRIPT, 4, (), ()),
    (1, 100, 2, 0, SCRIPT, 4, (), ()),
    (2**20 + 1, 100, 2, 3, SCRIPT, 4, (), ()),
    (1, 1, 2**10, 2**10 + 1, SCRIPT, 4, (), ()),
    (1, 2**19 + 1, 2**10, 2**10, SCRIPT, 4, (), ()),
    (2**64 - 1, 2**64 - 1, 2**64 - 1, 2**64 - 1, SCRIPT, 4, (), ()),
    (1, 100, 2, 3, SCRIPT, 5, (), ()),
    (1, 100, 2, 3, "x" * 129, 4, (), ()),
    (1, 100, 2, 3, SCRIPT, 4, (("k", "v"),) * 17, ()),
    (1, 100, 2, 3, SCRIPT, 4, (("k", "v" * 65),), ()),
    (1, 100, 2, 3, SCRIPT, 4, (), ((("k" * 65, "v"), b"<="),)),
)
# The number of nodes, and the GPUs, CPUs and MB of memory of each node. Some examples are invalid.
HARDWARE_EXAMPLES = (
    setup.HARDWARE,
    (1, (0,), (1,), (1,)),
    (0, (), (), ()),
    (2, (1,), (64, 64), (10, 10)),
    (1, (1,), (64, 64), (10,)),
    (1, (1,), (64,), ()),
    (1, (1,), (0,), (10,)),
    (1, (1,), (64,), (0,)),
    (2, (2**64 - 1,) * 2, (2**64 - 1,) * 2, (2**64 - 1,) * 2),
)
# The prices of a GPU, a CPU and a MB of memory per minute. The last three are above the bounds.
PRICE_LISTS = (
    setup.EXAMPLE_PRICES,
    setup.SMALL_PRICES,
    setup.ZERO_PRICES,
    (2**72 - 1, 2**72 - 1, 2**56 - 1),
    (2**72, 0, 0),
    (0, 2**72, 0),
    (0, 0, 2**56),
)
UINTS = (0, 1, 5, 20, 100, 101, 14 * COIN, 100 * COIN, 2**128 - 1, 2**128, MAX_UINT)
SECONDS = (0, 1, 59, 60, 61, 3600, 86400, 2**32, 2**64 - 1)
TEXTS = ("", "out of memory", "ä" * 40, "x" * 300)


class RandomCalls:
    """A source of random contract calls.

    Args:
        random: The source of randomness.
        model: The model of the contracts. The calls use its jobs and nonces.
        accounts: The accounts that send the calls.
    """

    def __init__(self, random: Random, model: ContractModel, accounts: Accounts) -> None:
        self._random = random
        self._model = model
        self._accounts = accounts
        self._functions: list[tuple[str, str]] = []
        for contract, functions in MODEL_FUNCTIONS.items():
            self._functions += product([contract], functions)

    def call(self) -> Call:
        """Return a call of any function by any account."""
        contract, function = self._random.choice(self._functions)
        return Call(
            self._sender(contract, function), contract, function, self.arguments(contract, function)
        )

    def arguments(self, contract: str, function: str) -> tuple:
        """Return arguments of a function."""
        inputs = artifact(contract).functions[function].inputs
        values = tuple(self._draw_value(abi_type, function) for abi_type in inputs)
        if function.endswith("WithPermit"):
            return values[:4] + self.signed_permit(values[1])
        return values

    def job_id(self) -> bytes:
        """Return the id of a job. The job sometimes does not exist."""
        existing = list(self._model.state.jobs)
        if existing and self._random.random() < 0.9:
            return self._random.choice(existing)
        return self._random.choice([0, len(existing) + 1, 2**64 + 1, MAX_UINT]).to_bytes(32)

    def account(self) -> str:
        """Return the address of a random account."""
        return self._random.choice(self._accounts.wallets).address

    def signed_permit(self, value: int, owner: str = "") -> tuple[int, int, bytes, bytes]:
        """Return deadline, v, r and s of a permit for MetaScheduler.

        The signer is the wallet with address ``owner``. If ``owner`` is empty, any wallet signs,
        and the signature sometimes has an invalid s.
        """
        deadline = self._model.now + self._random.choice([0, 10**6, 10**6, 10**6])
        wallet = self._random.choice(self._accounts.wallets)
        for candidate in self._accounts.wallets:
            if candidate.address == owner:
                wallet = candidate
        nonce = self._model.state.permits_used.get(wallet.address, 0)
        permit_values = (wallet.address, self._model.grid, value, nonce, deadline)
        digest = permit.digest(self._model.addresses["Credit"], self._model.chain_id, permit_values)
        v, r, s = permit.sign(self._accounts.key_of(wallet), digest)
        if not owner and self._random.random() < 0.3:
            # The other valid s of the signature, which Credit refuses as malleable.
            s = (permit.CURVE_ORDER - int.from_bytes(s)).to_bytes(32)
        return deadline, v, r, s

    def _draw_value(self, abi_type: str, function: str) -> Any:
        """Return a random value of an ABI type."""
        examples = self._values_by_type(function).get(abi_type)
        if examples is not None:
            return self._random.choice(examples)
        if abi_type == "bytes32":
            return self.job_id()
        if abi_type == "address":
            return self._random.choice([self.account(), self.account(), NOBODY, self._model.grid])
        if abi_type.endswith("[]"):
            count = self._random.randint(0, 4)
            return tuple(self._draw_value(abi_type[:-2], function) for _ in range(count))
        members = abi_type.strip("()").split(",")
        return tuple(self._draw_value(member, function) for member in members)

    def _values_by_type(self, function: str) -> dict[str, tuple]:
        # A uint8 is the state of a job (0 to 8), the kind of a queue (0 to 2), or another number.
        # Only existing members of an enum are drawn for setEnded, push and pop.
        values: dict[str, tuple] = {
            "bool": (True, False),
            "uint8": tuple(range(9 if function == "setEnded" else 11)),
            "uint64": SECONDS,
            "uint256": UINTS,
            "int64": (0, 1, 256, -1, 2**63 - 1, -(2**63)),
            "string": TEXTS,
            DEFINITION: DEFINITIONS * 2 + BAD_DEFINITIONS,
            HARDWARE: HARDWARE_EXAMPLES,
            PRICES: PRICE_LISTS,
            LABELS: ((), setup.LABELS),
        }
        if function in ("push", "pop"):
            values["uint8"] = (0, 1, 2)
        if function.endswith("Role"):
            values["bytes32"] = (ADMIN_ROLE, META_SCHEDULER_ROLE)
        return values

    def _sender(self, contract: str, function: str) -> str:
        if contract in INTERNAL_CONTRACTS or function == "incJobCount":
            return self._random.choice(self._accounts.wallets[1:]).address
        return self._random.choice([self.account(), self.account(), self._accounts.admin.address])

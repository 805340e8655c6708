# SPDX-License-Identifier: Apache-2.0
"""The grid before the first random call: the accounts, and the set-up of the contracts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.contracts.ledger.access import ADMIN_ROLE, CONTRACT_ROLE, META_SCHEDULER_ROLE
from tests.contracts.ledger.calls import Call
from tests.contracts.ledger.chain import Chain
from tests.contracts.ledger.constants import DEFAULTS
from tests.contracts.ledger.model import MAX_UINT, ContractModel
from tests.devnet import CHAIN_ID, COIN, wallet

from gridstead.adapters.chain.wallet import Wallet

SUPPLY = 10**7 * COIN
MILLI = COIN // 1000
HARDWARE = (2, (1, 1), (64, 64), (10**6, 10**6))
LABELS = (("os", "linux"), ("region", "ch"))
# Prices of the examples of DeepSquare, prices of a few wei to test rounding, and prices of 0.
WORKED, ODD, FREE = (8500 * MILLI, 950 * MILLI, 8 * MILLI // 100), (7, 3, 1), (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Cast:
    """The accounts. One customer has few credits, one provider is new, the outsider has no role."""

    admin: Wallet
    operator: Wallet
    rich: Wallet
    poor: Wallet
    first: Wallet
    second: Wallet
    new: Wallet
    outsider: Wallet

    @property
    def wallets(self) -> tuple[Wallet, ...]:
        """All wallets."""
        others = (self.admin, self.operator, self.rich, self.poor)
        return *others, self.first, self.second, self.new, self.outsider

    def key_of(self, wallet: Wallet) -> bytes:
        """Return the private key of one of the wallets."""
        return (1 + self.wallets.index(wallet)).to_bytes(32)

    @property
    def customers(self) -> tuple[str, str]:
        """The addresses of the customers."""
        return self.rich.address, self.poor.address

    @property
    def providers(self) -> tuple[str, str, str]:
        """The addresses of the providers."""
        return self.first.address, self.second.address, self.new.address


def cast() -> Cast:
    """Return the accounts; they are the same each time."""
    return Cast(*(wallet(number) for number in range(1, 9)))


def create_grid(chain: Chain, admin: str) -> ContractModel:
    """Deploy the contracts, and return their model."""
    addresses = {"Credit": chain.create(admin, "Credit", SUPPLY)}
    for name in ("Constants", "ProviderManager", "JobRepository"):
        addresses[name] = chain.create(admin, name)
    addresses["ProviderJobQueues"] = chain.create(
        admin, "ProviderJobQueues", addresses["JobRepository"]
    )
    parts = ("Credit", "Constants", "ProviderManager", "ProviderJobQueues", "JobRepository")
    grid = chain.create(admin, "MetaScheduler", *(addresses[name] for name in parts))
    model = ContractModel({**addresses, "MetaScheduler": grid}, CHAIN_ID)
    model.state.balances[admin] = SUPPLY
    model.state.constants = dict(DEFAULTS)
    model.state.owners = dict.fromkeys(("Credit", "Constants", "ProviderJobQueues"), admin)
    administered = ("MetaScheduler", "ProviderManager", "JobRepository")
    model.state.members = frozenset((name, ADMIN_ROLE, admin) for name in administered)
    model.block, model.now = chain.head()
    return model


def set_up(model: ContractModel, people: Cast) -> Iterator[Call]:
    """Yield the calls that grant the roles, distribute credits and approve two providers."""
    admin, grid = people.admin.address, model.grid
    yield Call(admin, "JobRepository", "grantRole", (META_SCHEDULER_ROLE, grid))
    yield Call(admin, "ProviderManager", "grantRole", (CONTRACT_ROLE, grid))
    yield Call(admin, "ProviderJobQueues", "offerOwnership", (grid,))
    yield Call(admin, "ProviderJobQueues", "transferOwnership", (grid,))
    yield Call(admin, "MetaScheduler", "grantRole", (META_SCHEDULER_ROLE, people.operator.address))
    yield Call(
        admin, "ProviderManager", "grantRole", (META_SCHEDULER_ROLE, people.operator.address)
    )
    yield Call(admin, "Credit", "transfer", (people.rich.address, 10**6 * COIN))
    yield Call(admin, "Credit", "transfer", (people.poor.address, 700 * COIN))
    yield Call(people.rich.address, "Credit", "approve", (grid, MAX_UINT))
    yield Call(people.poor.address, "Credit", "approve", (grid, 500 * COIN))
    for provider, prices in ((people.first.address, WORKED), (people.second.address, ODD)):
        yield Call(provider, "ProviderManager", "register", (HARDWARE, prices, LABELS))
        yield Call(people.operator.address, "ProviderManager", "approve", (provider,))

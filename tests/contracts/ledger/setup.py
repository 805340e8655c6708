# SPDX-License-Identifier: Apache-2.0
"""The grid before the first random call: who plays, and what was set up."""

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
# Of the reference's worked bills; of a few wei, so that every rounding shows; and none at all.
WORKED, ODD, FREE = (8500 * MILLI, 950 * MILLI, 8 * MILLI // 100), (7, 3, 1), (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays. The second customer is poor, the third provider is new, the stranger is nobody."""

    admin: Wallet
    operator: Wallet
    rich: Wallet
    poor: Wallet
    first: Wallet
    second: Wallet
    new: Wallet
    stranger: Wallet

    @property
    def wallets(self) -> tuple[Wallet, ...]:
        """Everybody."""
        people = (self.admin, self.operator, self.rich, self.poor)
        return *people, self.first, self.second, self.new, self.stranger

    def key_of(self, one: Wallet) -> bytes:
        """Return the key of one of them."""
        return (1 + self.wallets.index(one)).to_bytes(32)

    @property
    def customers(self) -> tuple[str, str]:
        """Who asks for jobs."""
        return self.rich.address, self.poor.address

    @property
    def providers(self) -> tuple[str, str, str]:
        """Who runs them."""
        return self.first.address, self.second.address, self.new.address


def cast() -> Cast:
    """Return the same people each time."""
    return Cast(*(wallet(number) for number in range(1, 9)))


def found(chain: Chain, admin: str) -> ContractModel:
    """Create the contracts and return the model of them."""
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
    """Yield the calls that wire the contracts, give out credits and approve two providers."""
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

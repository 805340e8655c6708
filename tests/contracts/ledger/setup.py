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
MILLICOIN = COIN // 1000
# The number of nodes, and the GPUs, CPUs and MB of memory of each node.
HARDWARE = (2, (1, 1), (64, 64), (10**6, 10**6))
LABELS = (("os", "linux"), ("region", "ch"))
# The prices in the examples of DeepSquare, prices of a few wei to test rounding, and zero prices.
EXAMPLE_PRICES, SMALL_PRICES, ZERO_PRICES = (
    (8500 * MILLICOIN, 950 * MILLICOIN, 8 * MILLICOIN // 100),
    (7, 3, 1),
    (0, 0, 0),
)


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of a campaign.

    The poor customer has few credits. The new provider is not registered. The outsider has no role.
    """

    admin: Wallet
    operator: Wallet
    rich_customer: Wallet
    poor_customer: Wallet
    first_provider: Wallet
    second_provider: Wallet
    new_provider: Wallet
    outsider: Wallet

    @property
    def wallets(self) -> tuple[Wallet, ...]:
        """All wallets."""
        others = (self.admin, self.operator, self.rich_customer, self.poor_customer)
        return *others, self.first_provider, self.second_provider, self.new_provider, self.outsider

    def key_of(self, wallet: Wallet) -> bytes:
        """Return the private key of one of the wallets."""
        return (1 + self.wallets.index(wallet)).to_bytes(32)

    @property
    def customers(self) -> tuple[str, str]:
        """The addresses of the customers."""
        return self.rich_customer.address, self.poor_customer.address

    @property
    def providers(self) -> tuple[str, str, str]:
        """The addresses of the providers."""
        return self.first_provider.address, self.second_provider.address, self.new_provider.address


def create_accounts() -> Accounts:
    """Return the accounts, which are the same in every campaign."""
    return Accounts(*(wallet(number) for number in range(1, 9)))


def create_grid(chain: Chain, admin: str) -> ContractModel:
    """Deploy the contracts, and return their model."""
    addresses = {"Credit": chain.create(admin, "Credit", admin, admin, SUPPLY)}
    for name in ("Constants", "ProviderManager", "JobRepository"):
        addresses[name] = chain.create(admin, name, admin)
    addresses["ProviderJobQueues"] = chain.create(
        admin, "ProviderJobQueues", admin, addresses["JobRepository"]
    )
    parameters = ("Credit", "Constants", "ProviderManager", "ProviderJobQueues", "JobRepository")
    arguments = (admin, *(addresses[name] for name in parameters))
    grid = chain.create(admin, "MetaScheduler", *arguments)
    model = ContractModel({**addresses, "MetaScheduler": grid}, CHAIN_ID)
    model.state.balances[admin] = SUPPLY
    model.state.constants = dict(DEFAULTS)
    model.state.owners = dict.fromkeys(("Credit", "Constants", "ProviderJobQueues"), admin)
    contracts_with_roles = ("MetaScheduler", "ProviderManager", "JobRepository")
    model.state.members = frozenset((name, ADMIN_ROLE, admin) for name in contracts_with_roles)
    model.block, model.now = chain.head()
    return model


def set_up(model: ContractModel, accounts: Accounts) -> Iterator[Call]:
    """Yield the calls that grant the roles, distribute credits and approve two providers."""
    admin, grid = accounts.admin.address, model.grid
    yield Call(admin, "JobRepository", "grantRole", (META_SCHEDULER_ROLE, grid))
    yield Call(admin, "ProviderManager", "grantRole", (CONTRACT_ROLE, grid))
    yield Call(admin, "ProviderJobQueues", "offerOwnership", (grid,))
    # The transfer also deletes an offer of ownership, because MetaScheduler cannot accept it.
    yield Call(admin, "ProviderJobQueues", "transferOwnership", (grid,))
    yield Call(
        admin, "MetaScheduler", "grantRole", (META_SCHEDULER_ROLE, accounts.operator.address)
    )
    yield Call(
        admin, "ProviderManager", "grantRole", (META_SCHEDULER_ROLE, accounts.operator.address)
    )
    yield Call(admin, "Credit", "transfer", (accounts.rich_customer.address, 10**6 * COIN))
    yield Call(admin, "Credit", "transfer", (accounts.poor_customer.address, 700 * COIN))
    yield Call(accounts.rich_customer.address, "Credit", "approve", (grid, MAX_UINT))
    yield Call(accounts.poor_customer.address, "Credit", "approve", (grid, 500 * COIN))
    for provider, prices in (
        (accounts.first_provider.address, EXAMPLE_PRICES),
        (accounts.second_provider.address, SMALL_PRICES),
    ):
        yield Call(provider, "ProviderManager", "register", (HARDWARE, prices, LABELS))
        yield Call(accounts.operator.address, "ProviderManager", "approve", (provider,))

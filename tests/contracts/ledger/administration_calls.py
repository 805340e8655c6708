# SPDX-License-Identifier: Apache-2.0
"""Random calls of the admin and the owners, calls about providers, and calls of Credit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import filterfalse
from random import Random
from typing import TypeVar

from tests.contracts.ledger import constants, providers, setup
from tests.contracts.ledger.access import ADMIN_ROLE, META_SCHEDULER_ROLE
from tests.contracts.ledger.calls import Call
from tests.contracts.ledger.model import MAX_UINT, ContractModel
from tests.contracts.ledger.random_calls import PRICE_LISTS, RandomCalls
from tests.contracts.ledger.sensible_calls import GRID, NothingToDo
from tests.contracts.ledger.setup import Accounts
from tests.contracts.ledger.state import NOBODY
from tests.devnet import COIN

MANAGER = "ProviderManager"
T = TypeVar("T")


class AdministrationCalls:
    """A source of random calls that change the set-up of the grid. They change no job.

    Args:
        random: The source of randomness.
        model: The model of the contracts.
        accounts: The accounts that send the calls.
        random_calls: The source of accounts and signed permits.
    """

    def __init__(
        self, random: Random, model: ContractModel, accounts: Accounts, random_calls: RandomCalls
    ) -> None:
        self._random = random
        self._model = model
        self._accounts = accounts
        self._random_calls = random_calls

    # Calls of the admin and the owners.

    def withdraw(self) -> Call:
        """Withdraw the fees, or one wei more or less."""
        amount = self._model.state.fees + self._random.choice([0, 0, 1, -1])
        return Call(self._accounts.admin.address, GRID, "withdrawAdmin", (max(0, amount),))

    def open_or_close(self) -> Call:
        """Close the grid for new jobs, or open it if it is closed."""
        arguments = (not self._model.state.is_open,)
        return Call(self._accounts.admin.address, GRID, "setEnableRequestNewJob", arguments)

    def reopen(self) -> Call:
        """Open the grid for new jobs if it is closed."""
        if self._model.state.is_open:
            raise NothingToDo
        return self.open_or_close()

    def set_constant(self) -> Call:
        """Set a constant to a value within or just outside the bounds, often to the default."""
        name = self._random.choice(list(constants.DEFAULTS))
        minimum, maximum = constants.BOUNDS[name]
        default = constants.DEFAULTS[name]
        value = self._random.choice(
            [max(0, minimum - 1), minimum, maximum + 1, default, default, default + 1]
        )
        if name == "deepsquareCut" and self._random.random() < 0.3:
            value = maximum
        return Call(self._owner("Constants"), "Constants", constants.setter(name), (value,))

    def change_owner(self) -> Call:
        """Offer, transfer or renounce the ownership of a contract."""
        contract = self._random.choice(["Constants", "Credit"])
        weighted_functions = (
            ["offerOwnership"] * 4 + ["transferOwnership"] * 2 + ["renounceOwnership"]
        )
        function = self._random.choice(weighted_functions)
        arguments: tuple[str, ...] = ()
        if function != "renounceOwnership":
            arguments = (self._random.choice([self._random_calls.account(), NOBODY]),)
        return Call(self._owner(contract), contract, function, arguments)

    def accept_ownership(self) -> Call:
        """Accept an offered ownership of a contract."""
        offers = []
        for contract, account in self._model.state.offers.items():
            if self._has_wallet(account):
                offers.append((contract, account))
        contract, account = self._choice(offers)
        return Call(account, contract, "acceptOwnership")

    def change_role(self) -> Call:
        """Grant, revoke or renounce a role."""
        contract = self._random.choice([GRID, MANAGER])
        role = self._random.choice([ADMIN_ROLE, META_SCHEDULER_ROLE])
        privileged_addresses = {self._accounts.admin.address, self._accounts.operator.address}
        accounts = sorted(
            {wallet.address for wallet in self._accounts.wallets} - privileged_addresses
        )
        members = self._model.state.members
        holders = [account for account in accounts if (contract, role, account) in members]
        if not holders or self._random.random() < 0.2:
            arguments = (role, self._random.choice(accounts))
            return Call(self._accounts.admin.address, contract, "grantRole", arguments)
        holder = self._random.choice(holders)
        if self._random.random() < 0.5:
            return Call(holder, contract, "renounceRole", (role, holder))
        return Call(self._accounts.admin.address, contract, "revokeRole", (role, holder))

    # Calls that change whether a provider is approved or banned, and what the provider offers.

    def change_standing(self) -> Call:
        """Approve, remove, ban or unban a provider, usually one for which the call is valid."""
        is_valid: dict[str, Callable[[str], bool]] = {
            "approve": lambda provider: provider in self._model.state.waiting,
            "remove": lambda provider: providers.standing(self._model, provider).approved,
            "ban": lambda provider: providers.is_joined(self._model, provider),
            "unban": lambda provider: providers.standing(self._model, provider).banned,
        }
        function = self._random.choice(["approve", "approve", "remove", "ban", "unban"])
        candidates = list(self._accounts.providers)
        if self._random.random() >= 0.2:
            candidates = list(filter(is_valid[function], candidates))
        sender = self._random.choice(
            [self._accounts.operator.address, self._accounts.admin.address]
        )
        return Call(sender, MANAGER, function, (self._choice(candidates),))

    def rejoin(self) -> Call:
        """Make the next call that a removed provider needs to join again.

        The call is ``unban``, ``approve`` or ``register``.
        """
        is_joined = partial(providers.is_joined, self._model)
        provider = self._choice(list(filterfalse(is_joined, self._accounts.providers)))
        operator = self._accounts.operator.address
        if providers.standing(self._model, provider).banned and self._random.random() < 0.5:
            return Call(operator, MANAGER, "unban", (provider,))
        if provider in self._model.state.waiting:
            if self._random.random() < 0.5:
                return Call(operator, MANAGER, "approve", (provider,))
            record_hash = providers.hash_of_waiting_record(self._model, provider)
            return Call(operator, MANAGER, "approveRecord", (provider, record_hash))
        return self._registration(provider)

    def change_offer(self) -> Call:
        """Change the registration, the prices or the draining of a provider."""
        provider = self._random.choice(self._accounts.providers)
        prices = self._random.choice(PRICE_LISTS[:4])
        match self._random.choice(["register", "prices", "drain", "resume", "resume"]):
            case "register":
                return self._registration(provider)
            case "prices":
                return Call(provider, MANAGER, "setPrices", (prices,))
            case "drain":
                return Call(provider, MANAGER, "setDraining", (True,))
        return Call(provider, MANAGER, "setDraining", (False,))

    def _registration(self, provider: str) -> Call:
        if self._random.random() < 0.3:
            return Call(
                provider, MANAGER, "register", self._random_calls.arguments(MANAGER, "register")
            )
        prices = self._random.choice(PRICE_LISTS[:4])
        return Call(provider, MANAGER, "register", (setup.HARDWARE, prices, setup.LABELS))

    # Calls of Credit.

    def set_allowance(self) -> Call:
        """Set the allowance of MetaScheduler for a customer's credits."""
        customer = self._random.choice(self._accounts.customers)
        amount = self._random.choice([0, 1000 * COIN, *[MAX_UINT] * 4])
        return Call(customer, "Credit", "approve", (self._model.grid, amount))

    def permit(self) -> Call:
        """Set an allowance with a customer's permit. Any account sends the call."""
        customer = self._random.choice(self._accounts.customers)
        value = self._random.choice([0, 200 * COIN, MAX_UINT])
        owner = self._random.choice([customer, customer, ""])
        arguments = (
            customer,
            self._model.grid,
            value,
            *self._random_calls.signed_permit(value, owner),
        )
        return Call(self._random_calls.account(), "Credit", "permit", arguments)

    def move_credits(self) -> Call:
        """Mint or transfer credits, or change an allowance."""
        customer = self._random.choice(self._accounts.customers)
        other = self._random.choice(
            [self._random_calls.account(), self._random_calls.account(), NOBODY]
        )
        amount = self._random.choice([0, 1, 100 * COIN, MAX_UINT])
        spender = self._random.choice([other, self._model.grid])
        return self._random.choice(
            [
                Call(
                    self._owner("Credit"),
                    "Credit",
                    "mint",
                    (self._random.choice([customer, NOBODY]), amount),
                ),
                Call(customer, "Credit", "transfer", (other, amount)),
                Call(customer, "Credit", "increaseAllowance", (spender, amount)),
                Call(customer, "Credit", "decreaseAllowance", (spender, amount)),
                Call(
                    self._random_calls.account(),
                    "Credit",
                    "transferFrom",
                    (customer, other, amount),
                ),
            ]
        )

    def _owner(self, contract: str) -> str:
        owner = self._model.state.owners[contract]
        return owner if self._has_wallet(owner) else self._accounts.admin.address

    def _has_wallet(self, account: str) -> bool:
        return account in {wallet.address for wallet in self._accounts.wallets}

    def _choice(self, candidates: Sequence[T]) -> T:
        if not candidates:
            raise NothingToDo
        return self._random.choice(candidates)

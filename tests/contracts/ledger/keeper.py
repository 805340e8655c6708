# SPDX-License-Identifier: Apache-2.0
"""Calls that keep the house: of the admin and the owners, about providers' standing, about credits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from tests.contracts.ledger import constants, providers, setup
from tests.contracts.ledger.access import ADMIN_ROLE, META_SCHEDULER_ROLE
from tests.contracts.ledger.calls import Call
from tests.contracts.ledger.model import MAX_UINT, ContractModel
from tests.contracts.ledger.random_calls import PRICE_LISTS, RandomCalls
from tests.contracts.ledger.sensible_calls import GRID, NothingToDo
from tests.contracts.ledger.setup import Cast
from tests.contracts.ledger.state import NOBODY
from tests.devnet import COIN

MANAGER = "ProviderManager"
T = TypeVar("T")


class Keeper:
    """Draws calls.

    Args:
        random: Where chance comes from.
        world: The model.
        cast: Who plays.
        wild: Where signatures come from.
    """

    def __init__(
        self, random: Random, model: ContractModel, cast: Cast, random_calls: RandomCalls
    ) -> None:
        self._random = random
        self._world = model
        self._cast = cast
        self._wild = random_calls

    # The admin and the owners.

    def withdraw(self) -> Call:
        """Withdraw fees, or a wei more."""
        amount = self._world.state.fees + self._random.choice([0, 0, 1, -1])
        return Call(self._cast.admin.address, GRID, "withdrawAdmin", (max(0, amount),))

    def open_or_close(self) -> Call:
        """Close the set, or open it if it is closed."""
        return Call(
            self._cast.admin.address,
            GRID,
            "setEnableRequestNewJob",
            (not self._world.state.takes_jobs,),
        )

    def open(self) -> Call:
        """Open the set if it is closed."""
        if self._world.state.takes_jobs:
            raise NothingToDo
        return self.open_or_close()

    def set_constant(self) -> Call:
        """Set a constant to a bound, its neighbours or its default."""
        name = self._random.choice(list(constants.DEFAULTS))
        least, most = constants.BOUNDS[name]
        usual = constants.DEFAULTS[name]
        value = self._random.choice([max(0, least - 1), least, most + 1, usual, usual, usual + 1])
        if name == "deepsquareCut" and self._random.random() < 0.3:
            value = most
        return Call(self._owner("Constants"), "Constants", constants.setter(name), (value,))

    def hand_over(self) -> Call:
        """Offer, give or give up a contract."""
        contract = self._random.choice(["Constants", "Credit"])
        function = self._random.choice(
            ["offerOwnership"] * 4 + ["transferOwnership"] * 2 + ["renounceOwnership"]
        )
        to = (
            ()
            if function == "renounceOwnership"
            else (self._random.choice([self._wild.account(), NOBODY]),)
        )
        return Call(self._owner(contract), contract, function, to)

    def accept(self) -> Call:
        """Take a contract that was offered."""
        offers = self._world.state.offers.items()
        contract, offered = self._choice([one for one in offers if self._is_somebody(one[1])])
        return Call(offered, contract, "acceptOwnership")

    def change_role(self) -> Call:
        """Give somebody a role, take it back, or let him give it up."""
        contract = self._random.choice([GRID, MANAGER])
        role = self._random.choice([ADMIN_ROLE, META_SCHEDULER_ROLE])
        accounts = {one.address for one in self._cast.wallets} - {
            self._cast.admin.address,
            self._cast.operator.address,
        }
        holders = [
            one for one in sorted(accounts) if (contract, role, one) in self._world.state.members
        ]
        if not holders or self._random.random() < 0.2:
            return Call(
                self._cast.admin.address,
                contract,
                "grantRole",
                (role, self._random.choice(sorted(accounts))),
            )
        holder = self._random.choice(holders)
        if self._random.random() < 0.5:
            return Call(holder, contract, "renounceRole", (role, holder))
        return Call(self._cast.admin.address, contract, "revokeRole", (role, holder))

    # Providers' standing.

    def administer(self) -> Call:
        """Approve, remove, ban or unban a provider, mostly one for which it makes sense."""
        wanted: dict[str, Callable[[str], bool]] = {
            "approve": lambda one: one in self._world.state.waiting,
            "remove": lambda one: providers.standing(self._world, one).approved,
            "ban": lambda one: providers.is_joined(self._world, one),
            "unban": lambda one: providers.standing(self._world, one).banned,
        }
        function = self._random.choice(["approve", "approve", "remove", "ban", "unban"])
        everybody = self._random.random() < 0.2
        able = [one for one in self._cast.providers if everybody or wanted[function](one)]
        sender = self._random.choice([self._cast.operator.address, self._cast.admin.address])
        return Call(sender, MANAGER, function, (self._choice(able),))

    def rejoin(self) -> Call:
        """Bring a provider back by the next step that it needs."""
        lost = [one for one in self._cast.providers if not providers.is_joined(self._world, one)]
        provider = self._choice(lost)
        operator = self._cast.operator.address
        if providers.standing(self._world, provider).banned and self._random.random() < 0.8:
            return Call(operator, MANAGER, "unban", (provider,))
        if provider in self._world.state.waiting:
            return Call(operator, MANAGER, "approve", (provider,))
        return self._registration(provider)

    def offer(self) -> Call:
        """Change what a provider offers."""
        provider, prices = (
            self._random.choice(self._cast.providers),
            self._random.choice(PRICE_LISTS[:4]),
        )
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
            return Call(provider, MANAGER, "register", self._wild.arguments(MANAGER, "register"))
        prices = self._random.choice(PRICE_LISTS[:4])
        return Call(provider, MANAGER, "register", (setup.HARDWARE, prices, setup.LABELS))

    # Credits.

    def allow(self) -> Call:
        """Allow the grid a customer's credits."""
        customer = self._random.choice(self._cast.customers)
        amount = self._random.choice([0, 1000 * COIN, *[MAX_UINT] * 4])
        return Call(customer, "Credit", "approve", (self._world.grid, amount))

    def permit(self) -> Call:
        """Allow by a signature that somebody else sends."""
        customer = self._random.choice(self._cast.customers)
        value = self._random.choice([0, 200 * COIN, MAX_UINT])
        owner = self._random.choice([customer, customer, ""])
        arguments = (customer, self._world.grid, value, *self._wild.permission(value, owner))
        return Call(self._wild.account(), "Credit", "permit", arguments)

    def move(self) -> Call:
        """Make or send credits, or change what is allowed, by amounts near what there is."""
        customer = self._random.choice(self._cast.customers)
        other = self._random.choice([self._wild.account(), self._wild.account(), NOBODY])
        amount = self._random.choice([0, 1, 100 * COIN, MAX_UINT])
        spender = self._random.choice([other, self._world.grid])
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
                Call(self._wild.account(), "Credit", "transferFrom", (customer, other, amount)),
            ]
        )

    def _owner(self, contract: str) -> str:
        owner = self._world.state.owners[contract]
        return owner if self._is_somebody(owner) else self._cast.admin.address

    def _is_somebody(self, account: str) -> bool:
        return any(one.address == account for one in self._cast.wallets)

    def _choice(self, some: Sequence[T]) -> T:
        if not some:
            raise NothingToDo
        return self._random.choice(some)

# SPDX-License-Identifier: Apache-2.0
"""Counts what each customer received and which share it should receive.

The *usage* of a customer is what its jobs cost. A match counts the whole escrow of the job. When
the job ends, the bill replaces this amount, still at the block of the match. If the job comes back
from the provider, the amount is removed. Usage decays: the cost of a match counts half as much one
half-life later. A job with the price 0 costs nothing.

The *weight* of a customer is the average of its credits over time, with the same decay. The
credits are those that the wallet holds and those that its jobs hold in escrow. So a wallet that is
divided into several wallets has the same weight in total, and credits that are passed from wallet
to wallet count only for the time that each wallet holds them.

The customer with the lowest usage divided by weight is served first. A part of the escrow of its
next job counts as usage already (``turn.py``).

Time is measured in blocks, and all values are integers, so that anyone can compute them from the
events of the chain. Old values are not reduced. Instead, new values count more: an amount of block
``b`` is multiplied by ``growth(b)``, which doubles with each half-life and grows linearly between.
The quotient of usage and weight does not change by this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from gridstead.domain.jobs.ids import JobId

# The priority is an integer: usage divided by weight, multiplied by this number.
PRIORITY_SCALE = 1 << 64


@dataclass(frozen=True, slots=True)
class HalfLife:
    """The time after which an amount counts half as much.

    Attributes:
        blocks: The number of blocks, at least 1.
    """

    blocks: int

    @lru_cache(maxsize=1024)  # noqa: B019 - a value without state
    def growth(self, block: int) -> int:
        """Return the factor by which an amount of a block is multiplied."""
        doublings, remainder = divmod(block, self.blocks)
        return (self.blocks + remainder) << doublings

    @lru_cache(maxsize=1024)  # noqa: B019 - a value without state
    def growth_before(self, block: int) -> int:
        """Return the sum of the factors of all blocks before a block."""
        doublings, remainder = divmod(block, self.blocks)
        # In the first half-life, the factors are blocks, blocks + 1, ..., 2 * blocks - 1.
        first_sum = self.blocks * self.blocks + _sum_below(self.blocks)
        whole_sum = first_sum * ((1 << doublings) - 1)
        last_sum = remainder * self.blocks + _sum_below(remainder)
        return whole_sum + (last_sum << doublings)


def _sum_below(count: int) -> int:
    """Return 0 + 1 + ... + (count - 1)."""
    return count * (count - 1) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a job costs its customer.

    Attributes:
        customer: The customer.
        cost: What counts as usage, wei: 0 while the job is pending, the escrow while it is matched
            or runs (0 if its price is 0), and the bill after its end.
        matched_block: The block of the last match. Has no effect if the cost is 0.
        deposits: What the job holds in escrow, or held until its end: for the request and each
            top-up, the block and the amount, wei.
        ended_block: The block of the end. None if the job has not ended.
    """

    customer: str
    cost: int
    matched_block: int
    deposits: tuple[tuple[int, int], ...]
    ended_block: int | None


# The attributes of an account, in their order.
AccountValues = tuple[int, int, int, int, int, int]


@dataclass(slots=True)
class _Account:
    """The account of one wallet.

    Attributes:
        usage: The sum of amount x growth over its matches.
        credits: What the wallet holds now, without its escrow, wei. Negative if the wallet
            has spent credits that it received before the first event.
        credit_weight: The sum of credits x growth over all blocks before ``counted_to``.
        counted_to: The block of the last transfer.
        escrow: The escrow of its jobs that have not ended, wei.
        escrow_weight: At any block, escrow x ``growth_before(block)`` plus this value is the sum of
            escrow x growth over all blocks before this block.
    """

    usage: int = 0
    credits: int = 0
    credit_weight: int = 0
    counted_to: int = 0
    escrow: int = 0
    escrow_weight: int = 0


@dataclass(frozen=True, slots=True)
class _Charge:
    """What a job adds to the account of its customer."""

    customer: str
    usage: int
    escrow: int
    escrow_weight: int


class Shares:
    """The usage and the weight of all customers.

    Args:
        half_life: The half-life of usage and weight.
    """

    def __init__(self, half_life: HalfLife) -> None:
        self._half_life = half_life
        self._accounts: dict[str, _Account] = {}
        self._charges: dict[JobId, _Charge] = {}

    def accounts(self) -> dict[str, AccountValues]:
        """Return the values of all accounts, by wallet."""
        accounts: dict[str, AccountValues] = {}
        for wallet, each in self._accounts.items():
            accounts[wallet] = (
                each.usage,
                each.credits,
                each.credit_weight,
                each.counted_to,
                each.escrow,
                each.escrow_weight,
            )
        return accounts

    def restore_accounts(self, accounts: Mapping[str, AccountValues]) -> None:
        """Replace the values of all accounts by those that ``accounts`` returned.

        The values include the open jobs. So the caller must set these jobs first.
        """
        self._accounts = {wallet: _Account(*values) for wallet, values in accounts.items()}

    def transfer(self, sender: str, receiver: str, amount: int, *, block: int) -> None:
        """Count a transfer of credits from wallet to wallet, wei.

        The transfers must be counted in the order of their blocks.
        """
        for wallet, change in ((sender, -amount), (receiver, amount)):
            account = self._account(wallet)
            account.credit_weight = self._credit_weight(account, block)
            account.counted_to = block
            account.credits += change

    def set_job(self, job_id: JobId, spending: Spending) -> None:
        """Set what a job costs and holds in escrow, and replace its earlier values."""
        self.remove_job(job_id)
        growth_before = self._half_life.growth_before
        escrow = 0
        escrow_weight = 0
        for block, amount in spending.deposits:
            escrow += amount
            escrow_weight -= amount * growth_before(block)
        if spending.ended_block is not None:
            escrow_weight += escrow * growth_before(spending.ended_block)
            escrow = 0
        usage = spending.cost * self._half_life.growth(spending.matched_block)
        account = self._account(spending.customer)
        account.usage += usage
        account.escrow += escrow
        account.escrow_weight += escrow_weight
        self._charges[job_id] = _Charge(spending.customer, usage, escrow, escrow_weight)

    def charge_match(self, job_id: JobId, cost: int, *, block: int) -> None:
        """Count what a match of a pending job costs, wei."""
        charge = self._charges[job_id]
        usage = cost * self._half_life.growth(block)
        self._account(charge.customer).usage += usage
        self._charges[job_id] = replace(charge, usage=usage)

    def close_job(self, job_id: JobId) -> None:
        """Forget a job that has ended. What it added to the account of its customer remains."""
        self._charges.pop(job_id, None)

    def remove_job(self, job_id: JobId) -> None:
        """Remove a job, and what it added to the account of its customer."""
        charge = self._charges.pop(job_id, None)
        if charge is not None:
            account = self._account(charge.customer)
            account.usage -= charge.usage
            account.escrow -= charge.escrow
            account.escrow_weight -= charge.escrow_weight

    def priority(self, customer: str, *, block: int, extra_usage: int = 0) -> int:
        """Return usage / weight x ``PRIORITY_SCALE``, rounded down. The lowest is served first.

        Args:
            customer: A wallet.
            block: The current block.
            extra_usage: A cost that is not counted yet, at the current block, wei.
        """
        account = self._account(customer)
        usage = account.usage + extra_usage * self._half_life.growth(block)
        return usage * PRIORITY_SCALE // max(1, self._weight(account, block))

    def usage(self, customer: str, *, block: int) -> int:
        """Return the decayed usage of a customer at a block, wei, rounded down."""
        return self._account(customer).usage // self._half_life.growth(block)

    def weight(self, customer: str, *, block: int) -> int:
        """Return the weight of a customer at a block: average credits, wei, rounded down."""
        if not block:
            return 0
        return self._weight(self._account(customer), block) // self._half_life.growth_before(block)

    def _account(self, wallet: str) -> _Account:
        account = self._accounts.get(wallet)
        if account is None:
            account = self._accounts[wallet] = _Account()
        return account

    def _weight(self, account: _Account, block: int) -> int:
        escrow_weight = account.escrow_weight
        if account.escrow:
            escrow_weight += account.escrow * self._half_life.growth_before(block)
        return self._credit_weight(account, block) + escrow_weight

    def _credit_weight(self, account: _Account, block: int) -> int:
        if account.credits <= 0:
            return account.credit_weight
        growth_before = self._half_life.growth_before
        growth = growth_before(block) - growth_before(account.counted_to)
        return account.credit_weight + account.credits * growth

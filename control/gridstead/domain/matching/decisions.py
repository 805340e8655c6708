# SPDX-License-Identifier: Apache-2.0
"""The parameters and the results of matching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Job
from gridstead.domain.matching.policies import BALANCED, Policy
from gridstead.domain.matching.shares import HalfLife

DEFAULT_HALF_LIFE = HalfLife(302_400)  # 7 days if a block takes 2 s
# The gas of a match in a batch, and of a match with the contracts of DeepSquare 1.2, which have no
# batches. Source: line "match" of contracts/gas.md.
GAS_PER_MATCH = 52_008
GAS_PER_SINGLE_MATCH = 293_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The parameters of a grid's matching. All its meta-schedulers must use the same values.

    Attributes:
        policy: The policy of all jobs.
        half_life: The half-life of usage and weight.
        queue_allowance: How many matched jobs may wait for room at each provider.
        max_matches: The most matches in one decision, which is made once per block. At most twice
            as many matches may be decided and not in a block yet.
        max_new_reservations: The most new reservations in one decision.
        max_work: The most searches in one decision that find no provider or need the candidates of
            a new class. Each customer has an equal part of it, but at least 1 (``turn.py``).
    """

    policy: Policy = BALANCED
    half_life: HalfLife = DEFAULT_HALF_LIFE
    queue_allowance: int = 0
    max_matches: int = 1000
    max_new_reservations: int = 50
    max_work: int = 5000

    def max_matches_after(self, unsent_count: int) -> int:
        """Return the most matches of a decision. The other jobs wait for a later decision.

        If the transactions of earlier matches are late, the jobs wait here and not in the outbox.
        So they are still matched in the fair order when the transactions are mined.

        Args:
            unsent_count: The number of earlier matches that are not in a block yet.
        """
        return max(0, min(self.max_matches, 2 * self.max_matches - unsent_count))


@dataclass(frozen=True, slots=True)
class Limits:
    """The providers that one job must not get, and those that it should not get.

    Attributes:
        excluded: The excluded providers with the reasons, by address.
        timeout_counts: How often a match of the job was not claimed in time, by the address of the
            provider. Providers with fewer timeouts are preferred.
    """

    excluded: Mapping[str, str] = field(default_factory=dict)
    timeout_counts: Mapping[str, int] = field(default_factory=dict)


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Pairing:
    """A decision to match a job.

    Attributes:
        job: The pending job.
        provider: The address of its provider.
        price_per_min: The provider's price for one minute of the whole job, wei.
    """

    job: Job
    provider: str
    price_per_min: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A reservation that became later.

    Attributes:
        job_id: The pending job.
        provider: The address of the provider.
        from_s: The earlier time, Unix seconds.
        to_s: The later time, Unix seconds.
        cause: What changed, as a text for the log.
    """

    job_id: JobId
    provider: str
    from_s: int
    to_s: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of one decision.

    Attributes:
        matches: The matches, in the order in which they were decided.
        moves: The reservations that became later.
    """

    matches: list[Pairing]
    moves: list[Move]

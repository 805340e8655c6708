# SPDX-License-Identifier: Apache-2.0
"""The reserved keys: in the conditions of a job they mean something else than a label."""

from __future__ import annotations

PRICE = "price.per-min"
QUEUE_WAIT = "queue.wait.s"
DEADLINE = "deadline.unix"
POLICY = "policy"
REPUTATION = "reputation.success"
BENCHMARK_AGE = "benchmark.age.h"

# The keys that are never labels, with what a condition of a job compares instead.
RESERVED_MEANINGS = {
    PRICE: "the price of one minute of the whole job, in credits",
    QUEUE_WAIT: "the expected time until the provider has room for the job, in seconds",
    DEADLINE: "the expected end of the job, in Unix seconds",
    POLICY: "the policy for this job",
    REPUTATION: "the share of the provider's jobs without its fault, from 0 to 1",
    BENCHMARK_AGE: "the age of the provider's benchmarks, in whole hours",
}
RESERVED_KEYS = frozenset(RESERVED_MEANINGS)

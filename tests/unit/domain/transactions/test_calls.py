# SPDX-License-Identifier: Apache-2.0
"""The stored names of calls."""

from typing import get_args

import pytest
from tests.unit.domain.transactions.outbox import ending, running

from gridstead.domain.transactions.calls import (
    CALL_NAMES,
    Call,
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    name_of,
)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (ClaimJobs(limit=1), "ClaimJobs"),
        (ClaimCancelling(), "ClaimCancelling"),
        (ClaimTopUp(), "ClaimTopUp"),
        (running(), "SetRunning"),
        (ending(), "Settle"),
    ],
)
def test_call_is_stored_under_the_name_of_its_kind(call, name):
    assert name_of(call) == name


def test_each_kind_of_call_has_its_own_name():
    assert CALL_NAMES.keys() == set(get_args(Call))
    assert len(set(CALL_NAMES.values())) == len(CALL_NAMES)

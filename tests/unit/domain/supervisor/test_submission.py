# SPDX-License-Identifier: Apache-2.0
"""Tests of the gate, the check before a job is submitted to Slurm."""

import pytest
from tests.unit.domain.builders import CUSTOMER

from gridstead.domain.supervisor.submission import Gate, GridUser

USER = GridUser(address=CUSTOMER, uid=200_001, gid=100_000)


@pytest.mark.parametrize(
    ("gate", "is_open"),
    [
        (Gate(user=None, missing=()), False),
        (Gate(user=USER, missing=("home directory",)), False),
        (Gate(user=USER, missing=()), True),
    ],
)
def test_gate_is_open_if_the_user_exists_and_nothing_is_missing(gate, is_open):
    assert gate.is_open == is_open

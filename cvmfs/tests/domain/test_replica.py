# SPDX-License-Identifier: Apache-2.0
"""Tests of the state of a replica, and of the revisions that it retains."""

from __future__ import annotations

import pytest
from cvmfs.tests.domain.samples import manifest

from gridstead_cvmfs.domain.objects import HashAlgorithm, ObjectKind, ObjectName
from gridstead_cvmfs.domain.replica import (
    ReplicaState,
    Revision,
    make_current,
    retain,
    to_revision,
)


def revision(number):
    return Revision(
        number=number,
        published_at=0,
        roots=(ObjectName(f"{number:040x}", HashAlgorithm.SHA1, ObjectKind.CATALOG),),
    )


def superseded_times(state):
    """Return (number, time at which the revision was superseded) for each revision."""
    return [(revision.number, revision.superseded_at) for revision in state.revisions]


def test_a_new_revision_supersedes_the_previous_one():
    state = make_current(ReplicaState(), revision(1), now=10)
    state = make_current(state, revision(2), now=20)

    assert superseded_times(state) == [(1, 20), (2, None)]
    assert state.current.number == 2


def test_a_pull_of_the_current_revision_does_not_change_the_state():
    state = make_current(ReplicaState(), revision(1), now=10)

    assert make_current(state, revision(1), now=20) is state


def test_an_older_revision_may_become_current_again():
    state = ReplicaState()
    for now, number in enumerate((1, 2, 1)):  # at the times 0, 1 and 2
        state = make_current(state, revision(number), now=now)

    assert superseded_times(state) == [(2, 2), (1, None)]


@pytest.mark.parametrize(
    ("now", "keep_s", "numbers"), [(10**9, 100, [3]), (350, 100, [2, 3]), (350, 1000, [1, 2, 3])]
)
def test_superseded_revisions_are_retained_for_a_time(now, keep_s, numbers):
    # Revision 1 is superseded at time 200, revision 2 at time 300.
    state = ReplicaState()
    for number in (1, 2, 3):
        state = make_current(state, revision(number), now=number * 100)

    retained_state = retain(state, now=now, keep_s=keep_s)

    assert [revision.number for revision in retained_state.revisions] == numbers


def test_a_new_state_has_no_current_revision():
    assert ReplicaState().current is None


def test_a_revision_has_the_number_and_the_time_of_its_manifest():
    new_revision = to_revision(manifest())

    assert (new_revision.number, new_revision.published_at) == (7, 9)


@pytest.mark.parametrize(
    ("optional_fields", "kinds"),
    [
        ({}, [ObjectKind.CATALOG, ObjectKind.CERTIFICATE]),
        ({"H": "2" * 40}, [ObjectKind.CATALOG, ObjectKind.CERTIFICATE, ObjectKind.HISTORY]),
    ],
)
def test_a_revision_has_the_roots_of_its_manifest(optional_fields, kinds):
    roots = to_revision(manifest(**optional_fields)).roots

    assert [root.kind for root in roots] == kinds

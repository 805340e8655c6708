# SPDX-License-Identifier: Apache-2.0
"""The differences between two snapshots of a host."""

from gridstead_lab import snapshots

# A snapshot maps the kind of an object, then the name of the object, to the object's state.
BEFORE = {"file": {"/etc/a": "1", "/etc/b": "1", "/etc/c": "1"}, "unit": {"a.service": "enabled"}}
AFTER = {"file": {"/etc/a": "1", "/etc/b": "2", "/etc/d": "1"}, "unit": {"a.service": "disabled"}}
DIFFERENCES = [
    "file /etc/b: 1 -> 2",
    "file /etc/c: 1 -> None",
    "file /etc/d: None -> 1",
    "unit a.service: enabled -> disabled",
]


def test_added_removed_and_changed_objects_are_reported():
    assert snapshots.unexpected_differences(BEFORE, AFTER, []) == DIFFERENCES


def test_declared_objects_are_not_reported():
    # "seen" contains, by kind, patterns for the names of objects that may change.
    declared_changes = [{"seen": {"file": ["/etc/[cd]"]}}, {"seen": {"unit": ["a[.]service"]}}]

    assert snapshots.unexpected_differences(BEFORE, AFTER, declared_changes) == DIFFERENCES[:1]


def test_a_pattern_matches_only_whole_names_of_objects_of_its_kind():
    declared = [{"seen": {"file": ["/etc/", "a[.]service"], "unit": ["/etc/b"]}}]

    assert snapshots.unexpected_differences(BEFORE, AFTER, declared) == DIFFERENCES

# SPDX-License-Identifier: Apache-2.0
"""Tests of what a run measures."""

import pytest

from gridstead.domain.benchmarks.selection import (
    Selection,
    check_suites,
    parse_selection,
    selected_nodes,
    selection_text,
)
from gridstead.domain.benchmarks.site import Node
from gridstead.errors import InvalidInput, UnexpectedOutput

NODES = tuple(Node(name=name, cores=2, memory_mib=1000) for name in ("n1", "n2", "n3"))


def test_without_names_the_whole_site_is_measured():
    assert Selection().is_whole_site
    assert selected_nodes(Selection(), NODES) == NODES
    check_suites(Selection())


def test_selected_nodes_keep_the_order_of_the_site():
    selection = Selection(nodes=("n3", "n1"))

    assert not selection.is_whole_site
    assert selected_nodes(selection, NODES) == (NODES[0], NODES[2])


def test_a_node_that_does_not_accept_jobs_is_refused_with_the_others():
    with pytest.raises(InvalidInput, match="'n9'") as caught:
        selected_nodes(Selection(nodes=("n1", "n9")), NODES)

    assert caught.value.detail == "there are n1, n2, n3"


def test_an_unknown_suite_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="'speed'") as caught:
        check_suites(Selection(suites=("compute", "speed")))

    assert "compute" in caught.value.detail


def test_a_request_is_read_as_it_was_written():
    selection = Selection(nodes=("n1",), suites=("compute",))

    assert parse_selection(selection_text(selection), source="r") == selection
    assert parse_selection("{}", source="r") == Selection()


@pytest.mark.parametrize("text", ["", "[]", "3", '{"nodes": "n1"}', '{"suites": [1]}'])
def test_a_text_that_is_not_a_request_is_an_error(text):
    with pytest.raises(UnexpectedOutput, match="output of r"):
        parse_selection(text, source="r")

# SPDX-License-Identifier: Apache-2.0
"""Which nodes and suites a run measures. A run of the whole site has no names."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gridstead.domain.benchmarks.run import SUITES
from gridstead.domain.benchmarks.site import Node
from gridstead.errors import InvalidInput, UnexpectedOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The nodes and the suites of a run.

    Attributes:
        nodes: The names of the nodes. Empty for all nodes that accept jobs.
        suites: The names of the suites. Empty for all suites.
    """

    nodes: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()

    @property
    def is_whole_site(self) -> bool:
        """Whether the run measures all nodes with all suites."""
        return not self.nodes and not self.suites


def check_suites(selection: Selection) -> None:
    """Check the names of the suites.

    Raises:
        InvalidInput: If there is no suite with one of the names.
    """
    _check_names("suite", selection.suites, SUITES)


def selected_nodes(selection: Selection, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes of a run, in the order of the given nodes.

    Args:
        selection: The selection.
        nodes: The nodes that accept jobs.

    Raises:
        InvalidInput: If the selection names another node.
    """
    all_nodes = tuple(nodes)
    if not selection.nodes:
        return all_nodes
    _check_names("node that accepts jobs", selection.nodes, [node.name for node in all_nodes])
    return tuple(node for node in all_nodes if node.name in selection.nodes)


def selection_text(selection: Selection) -> str:
    """Return the text of a request for a run."""
    document = {"nodes": list(selection.nodes), "suites": list(selection.suites)}
    return json.dumps(document) + "\n"


def parse_selection(text: str, *, source: str) -> Selection:
    """Return the selection in the text of a request.

    Args:
        text: A JSON object with the optional lists ``nodes`` and ``suites``.
        source: Where the text is from, for the error.

    Raises:
        UnexpectedOutput: If the text is not a request.
    """
    try:
        document = json.loads(text)
        names = (document.get("nodes", []), document.get("suites", []))
    except (ValueError, AttributeError, RecursionError) as error:
        raise UnexpectedOutput(source, text) from error
    for value in names:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise UnexpectedOutput(source, text)
    nodes, suites = names
    return Selection(nodes=tuple(nodes), suites=tuple(suites))


def _check_names(kind: str, names: Iterable[str], allowed: Collection[str]) -> None:
    unknown = sorted(set(names) - set(allowed))
    if unknown:
        raise InvalidInput(
            f"there is no {kind} {unknown[0][:200]!r}", detail=f"there are {', '.join(allowed)}"
        )

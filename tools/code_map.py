#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write docs/explanation/code-map.md: the modules of the control plane by subject and layer.

A layer is a folder of control/gridstead, such as ``domain``. A subject is a folder in a layer, such
as ``jobs``. A test fails if the page differs from the output of this program.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
CONTROL = CHECKOUT / "control" / "gridstead"
PAGE = CHECKOUT / "docs" / "explanation" / "code-map.md"
WITHOUT_SUBJECTS = {"workflow", "errors"}
SEVERAL_SUBJECTS = "several"
HEAD = """\
<!-- Written by tools/code_map.py; do not edit. -->

# Where is the code for a topic?

The layers of `control/gridstead/` are the columns. A layer may use the layers to its right;
services, adapters and rpc do not use each other. The rows are topics, called subjects, such as
`jobs`. A subject has the same name in each layer. It is a folder, or, in a layer with few modules,
a single module. The last row has the modules that belong to several subjects. The modules of
`wiring` create the adapters and services from the settings, and start the services.

Other packages and modules have no subjects: `workflow` checks and renders workflows, `config` reads
settings, `errors` defines the exceptions, `logs` sets up logging, `abi` and `proto` have the
generated interfaces of the contracts and of gRPC, `slurm_releases` has the data of each release of
Slurm, and `distributions` names the distribution of each command.

[A job's way through these modules](job-walk.md) shows how they work together.
"""

Map = dict[str, dict[str, list[str]]]


def layers() -> list[str]:
    """Return the layers that have subjects, highest first, from the settings of import-linter."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    names: list[str] = []
    for contract in contracts:
        if contract.get("containers") == ["gridstead"]:
            for row in contract["layers"]:  # such as "services | adapters | rpc"
                names += row.replace(" ", "").split("|")
    return [name for name in names if name not in WITHOUT_SUBJECTS]


def subjects(layer_names: list[str]) -> list[str]:
    """Return the sorted names of the subjects, which are the folders of the layers."""
    names: set[str] = set()
    for layer in layer_names:
        for path in (CONTROL / layer).glob("*/__init__.py"):
            names.add(path.parent.name)
    return sorted(names)


def code_map() -> Map:
    """Return the modules by subject and layer."""
    layer_names = layers()
    names = subjects(layer_names)
    modules: Map = defaultdict(lambda: defaultdict(list))
    for layer in layer_names:
        for path in sorted((CONTROL / layer).rglob("*.py")):
            if path.name != "__init__.py":
                subject = _subject(path.relative_to(CONTROL / layer), names)
                modules[subject][layer].append(path.stem)
    return modules


def _subject(module: Path, names: list[str]) -> str:
    """Return the subject of a module: its folder, or the subject at the start of its name.

    For example, the subject of module ``cli/job_output.py`` is ``jobs``.
    """
    if len(module.parts) > 1:
        return module.parts[0]
    first_word = module.stem.partition("_")[0]
    for name in names:
        if module.stem == name or first_word in {name, name.removesuffix("s")}:
            return name
    return SEVERAL_SUBJECTS


def page() -> str:
    """Return the text of the page."""
    return "\n".join([HEAD, *_table(), ""])


def _table() -> Iterator[str]:
    layer_names, modules = layers(), code_map()
    yield f"| subject | {' | '.join(layer_names)} |"
    yield "|---" * (len(layer_names) + 1) + "|"
    for subject in [*subjects(layer_names), SEVERAL_SUBJECTS]:
        cells = [", ".join(modules[subject][layer]) for layer in layer_names]
        yield f"| **{subject}** | {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page())

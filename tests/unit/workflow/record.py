# SPDX-License-Identifier: Apache-2.0
"""Write the scripts that the examples render to; look at the difference before committing it."""

from __future__ import annotations

from pathlib import Path

from gridstead.workflow.parse import parse_workflow
from gridstead.workflow.render import render

if __name__ == "__main__":
    for example in sorted(Path("examples").glob("*.yaml")):
        target = Path(__file__).parent / "golden" / f"{example.stem}.sh"
        target.write_text(render(parse_workflow(example.read_text())))

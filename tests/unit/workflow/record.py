# SPDX-License-Identifier: Apache-2.0
"""Write the generated files: the scripts of the examples and the reference page.

Review the difference before you commit it.
"""

from __future__ import annotations

from pathlib import Path

from gridstead.workflow.parse import parse_workflow
from gridstead.workflow.reference import markdown
from gridstead.workflow.render import render

if __name__ == "__main__":
    for example in sorted(Path("examples").glob("*.yaml")):
        target = Path(__file__).parent / "golden" / f"{example.stem}.sh"
        target.write_text(render(parse_workflow(example.read_text())))
    page = Path("docs/reference/workflow.md")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(markdown())

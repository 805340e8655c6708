# SPDX-License-Identifier: Apache-2.0
"""The reference page says what the models say."""

from __future__ import annotations

from pathlib import Path

from gridstead.workflow.reference import markdown


def test_page_is_the_one_that_the_models_make():
    """After a wanted change: ``python -m tests.unit.workflow.record``."""
    assert Path("docs/reference/workflow.md").read_text() == markdown()


def test_every_kind_of_value_has_a_section():
    text = markdown()

    for name in (
        "Job",
        "JobResources",
        "EnvVar",
        "Step",
        "StepRun",
        "StepRunResources",
        "StepUse",
        "Module",
        "VNet",
    ):
        assert f"\n## {name}\n" in text

# SPDX-License-Identifier: Apache-2.0
"""The reference page of the workflow language, which is generated from the models."""

from __future__ import annotations

from pathlib import Path

from gridstead.workflow.reference import markdown


def test_the_page_is_up_to_date():
    """Run ``python -m tests.unit.workflow.record`` after an intended change."""
    assert Path("docs/reference/workflow.md").read_text() == markdown()


def test_mappings_of_jobs_and_modules_have_a_section():
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

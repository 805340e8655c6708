# SPDX-License-Identifier: Apache-2.0
"""What input and output may say, and what of it is secret."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import STORE, workflow
from tests.unit.workflow.strategies import refusal

from gridstead.errors import InvalidInput
from gridstead.workflow.render import render, secrets_of


class TestRules:
    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            (
                {"input": {"http": {"url": "ftp://x/y"}}},
                "input.http.url: must be a URL that starts with http",
            ),
            (
                {"input": {"http": {"url": "https:///y"}}},
                "input.http.url: must be a URL that starts with http",
            ),
            ({"input": {"http": {"url": "https://a b"}}}, "input.http.url: is not a URL"),
            ({"input": {"http": {"url": "https://a\nurl = b"}}}, "input.http.url: is not a URL"),
            (
                {"input": {"s3": {**STORE, "bucketUrl": "s3://b/"}}},
                "input.s3.bucketUrl: must start with s3://",
            ),
            ({"input": {"s3": {**STORE, "path": "x"}}}, "input.s3.path: must start with /"),
            (
                {"input": {"s3": {**STORE, "secretAccessKey": "a\nb"}}},
                "input.s3.secretAccessKey: holds a character",
            ),
            (
                {"input": {"s3": {**STORE, "region": "a%(b)s"}}},
                "input.s3.region: holds a character",
            ),
            (
                {"input": {"s3": {**STORE, "endpointUrl": "https://a/?b"}}},
                "input.s3.endpointUrl: must be a URL of",
            ),
            ({"inputMode": 512}, "inputMode: must be at least 0 and at most 511"),
            (
                {"continuousOutputSync": True},
                "workflow: has continuousOutputSync, which needs an output to s3",
            ),
        ],
    )
    def test_rules(self, fields, expected):
        (problem,) = refusal(lambda: workflow("x", **fields))

        assert str(problem).startswith(expected)

    def test_web_counts_where_both_are_given(self):
        both = {"http": {"url": "https://a/b"}, "s3": STORE}

        assert "rclone" not in render(workflow("x", input=both, output=both))

    def test_workflow_with_secrets_needs_a_provider_that_can_pass_them(self):
        job = workflow("x", input={"s3": STORE})

        assert list(secrets_of(job)) == ["GRIDSTEAD_INPUT"]
        with pytest.raises(InvalidInput):
            render(job, secrets_beside=False)
        assert secrets_of(workflow("x", output={"http": {"url": "https://a/b"}})) == {}

    def test_keys_are_not_shown(self):
        job = workflow(
            "x", input={"s3": STORE}, output={"http": {"url": "https://a/b?very-secret"}}
        )

        assert "secret" not in repr(job).replace("secret_access_key", "")
        assert "AKIA" not in repr(job)

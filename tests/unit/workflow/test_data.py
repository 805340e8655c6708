# SPDX-License-Identifier: Apache-2.0
"""Tests of the rules about a job's input and output data, and about the secrets for this data."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import STORE, workflow
from tests.unit.workflow.strategies import problems_of

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
                "input.s3.secretAccessKey: contains a character",
            ),
            (
                {"input": {"s3": {**STORE, "region": "a\nb"}}},
                "input.s3.region: contains a character",
            ),
            (
                {"input": {"s3": {**STORE, "accessKeyId": ""}}},
                "input.s3.accessKeyId: must not be empty",
            ),
            (
                {"input": {"s3": {**STORE, "endpointUrl": "https://a/?b"}}},
                "input.s3.endpointUrl: must be the URL of",
            ),
            ({"inputMode": 512}, "inputMode: must be at least 0 and at most 511"),
        ],
    )
    def test_an_invalid_input_or_output_is_refused(self, fields, expected):
        (problem,) = problems_of(lambda: workflow("x", **fields))

        assert str(problem).startswith(expected)

    def test_http_is_used_if_a_workflow_has_both_http_and_s3(self):
        both = {"http": {"url": "https://a/b"}, "s3": STORE}

        assert "rclone" not in render(workflow("x", input=both, output=both))

    def test_a_workflow_with_secrets_is_not_rendered_if_secrets_cannot_be_passed(self):
        job = workflow("x", input={"s3": STORE})

        assert list(secrets_of(job)) == ["GRIDSTEAD_INPUT"]
        with pytest.raises(InvalidInput):
            render(job, secrets_beside=False)

    def test_a_url_without_query_and_password_is_not_a_secret(self):
        job = workflow("x", output={"http": {"url": "https://a/b"}})

        assert secrets_of(job) == {}

    def test_the_repr_of_a_workflow_shows_no_secrets(self):
        job = workflow(
            "x", input={"s3": STORE}, output={"http": {"url": "https://a/b?very-secret"}}
        )

        # "secret_access_key" is the name of a field.
        assert "secret" not in repr(job).replace("secret_access_key", "")
        assert "AKIA" not in repr(job)

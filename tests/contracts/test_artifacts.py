# SPDX-License-Identifier: Apache-2.0
"""Tests that the artifacts in the Python package match the sources, and tests of the lock file."""

import hashlib
import json
import subprocess
import sys

import pytest
from tests.modules import load

NAMES = (
    "Constants",
    "Credit",
    "JobRepository",
    "MetaScheduler",
    "ProviderJobQueues",
    "ProviderManager",
)
EIP_170_LIMIT = 24_576
# Some space is left for corrections.
SIZE_LIMITS = dict.fromkeys(NAMES, EIP_170_LIMIT) | {"MetaScheduler": 23_500}
# SHA-256 of the artifacts of an earlier release, in the order of NAMES.
EARLIER_RELEASES = {
    "2.0.0": "bf4585c2bb773f9cc6358408486aaef6cb3f17f95fda1f6b5643f281ca4161f6",
}


def test_every_artifact_has_the_hash_of_the_sources(read_artifact, contracts_dir):
    build_artifacts = load(contracts_dir / "build-artifacts.py")

    source_hash = build_artifacts.hash_sources()

    for name in NAMES:
        assert read_artifact(name)["source_hash"] == source_hash, name


def test_artifact_of_the_devnet_has_the_hash_of_its_source(read_artifact, contracts_dir):
    build_artifacts = load(contracts_dir / "build-artifacts.py")

    source_hash = build_artifacts.hash_sources("devnet")

    assert read_artifact("Multicall")["source_hash"] == source_hash


def test_compiled_sources_equal_the_artifacts(read_compiled, contracts_dir):
    result = subprocess.run(
        [sys.executable, contracts_dir / "build-artifacts.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.returncode, result.stdout) == (0, "")


def test_no_artifact_needs_linking(read_artifact):
    for name in NAMES:
        assert read_artifact(name)["link_references"] == {}, name


def test_every_contract_is_within_the_size_limit(read_compiled, contracts_dir):
    for name in NAMES:
        read_compiled(f"{name}.sol", name)
        document = json.loads((contracts_dir / "out" / f"{name}.sol" / f"{name}.json").read_text())
        bytecode = document["deployedBytecode"]["object"]
        size = len(bytes.fromhex(bytecode.removeprefix("0x")))

        assert size <= SIZE_LIMITS[name], name


@pytest.mark.parametrize(("release", "expected_hash"), EARLIER_RELEASES.items())
def test_artifacts_of_an_earlier_release_never_change(release, expected_hash, contracts_dir):
    folder = contracts_dir.parent / "control" / "gridstead" / "abi" / release

    digest = hashlib.sha256()
    for name in NAMES:
        digest.update((folder / f"{name}.json").read_bytes())

    assert digest.hexdigest() == expected_hash


def test_lock_file_names_no_registry(contracts_dir):
    lock = json.loads((contracts_dir / "package-lock.json").read_text())

    packages = lock["packages"]
    del packages[""]  # the project itself
    for path, package in packages.items():
        assert "resolved" not in package, path
        assert "integrity" in package, path

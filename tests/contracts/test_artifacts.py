# SPDX-License-Identifier: Apache-2.0
"""The artifacts in the package match the sources and the lock file."""

import json
import subprocess
import sys

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


def test_every_artifact_has_the_hash_of_the_sources(artifact, contracts_dir):
    build_artifacts = load(contracts_dir / "build-artifacts.py")

    hashes = {name: artifact(name)["source_hash"] for name in NAMES}

    assert hashes == dict.fromkeys(NAMES, build_artifacts.hash_sources())


def test_compiled_sources_equal_the_artifacts(compiled, contracts_dir):
    done = subprocess.run(
        [sys.executable, contracts_dir / "build-artifacts.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_no_artifact_needs_linking(artifact):
    assert {name: artifact(name)["link_references"] for name in NAMES} == {key: {} for key in NAMES}


def test_every_contract_is_within_the_size_limit(compiled, contracts_dir):
    for name in NAMES:
        compiled(f"{name}.sol", name)
        document = json.loads((contracts_dir / "out" / f"{name}.sol" / f"{name}.json").read_text())
        size = len(document["deployedBytecode"]["object"]) // 2 - 1

        assert size <= EIP_170_LIMIT, name


def test_lock_file_names_no_registry(contracts_dir):
    lock = json.loads((contracts_dir / "package-lock.json").read_text())

    assert [path for path, entry in lock["packages"].items() if "resolved" in entry] == []
    assert all("integrity" in entry for path, entry in lock["packages"].items() if path)

# SPDX-License-Identifier: Apache-2.0
"""Fields that exist in the language but not in this grid yet."""

from __future__ import annotations

CONTAINER = "container steps"
INPUT = "input data"
OUTPUT = "output data"
NETWORKS = "networks of a job"

# By the mapping they stand in, with what they are part of.
LATER: dict[str, dict[str, str]] = {
    "Job": {
        "input": INPUT, "inputMode": INPUT, "output": OUTPUT, "continuousOutputSync": OUTPUT,
        "virtualNetworks": NETWORKS,
    },
    "Step": {"use": "modules"},
    "StepRun": {
        "container": CONTAINER, "network": NETWORKS, "dns": NETWORKS, "customNetworkInterfaces": NETWORKS,
        "mapUid": "mapped users", "mapGid": "mapped users", "mpi": "MPI", "disableCpuBinding": "CPU binding",
    },
}  # fmt: skip

# Fields of mappings that do not exist yet, with the places of those.
WITHIN_LATER: dict[str, tuple[str, ...]] = {
    "steps[].run.container": (
        "image", "registry", "apptainer", "deepsquareHosted", "mounts", "mountHome", "readOnlyRootFS", "x11",
        "username", "password",
    ),
    "input": ("http", "s3"),
    "output": ("http", "s3"),
    "steps[].use": ("source", "args", "exportEnvAs"),
}  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Fields that exist in the language but not in this grid yet."""

from __future__ import annotations

CONTAINER = "container steps"
LATER: dict[str, str] = {
    "container": CONTAINER, "image": CONTAINER, "registry": CONTAINER, "apptainer": CONTAINER,
    "deepsquareHosted": CONTAINER, "mounts": CONTAINER, "mountHome": CONTAINER, "readOnlyRootFS": CONTAINER,
    "x11": CONTAINER, "username": CONTAINER, "password": CONTAINER,
    "input": "input data", "inputMode": "input data", "output": "output data",
    "continuousOutputSync": "output data", "virtualNetworks": "networks of a job", "network": "networks of a job",
    "dns": "networks of a job", "customNetworkInterfaces": "networks of a job",
    "use": "modules",
    "mapUid": "mapped users", "mapGid": "mapped users", "mpi": "MPI", "disableCpuBinding": "CPU binding",
}  # fmt: skip

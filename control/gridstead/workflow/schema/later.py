# SPDX-License-Identifier: Apache-2.0
"""Fields that exist in the language but not in this grid yet."""

from __future__ import annotations

NETWORKS = "networks of a job"

# By the mapping they stand in, with what they are part of.
LATER: dict[str, dict[str, str]] = {
    "Job": {
        "virtualNetworks": NETWORKS,
    },
    "StepRun": {
        "network": NETWORKS, "dns": NETWORKS, "customNetworkInterfaces": NETWORKS,
    },
}  # fmt: skip

# Fields of mappings that do not exist yet, with the places of those.
WITHIN_LATER: dict[str, tuple[str, ...]] = {}

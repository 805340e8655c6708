# SPDX-License-Identifier: Apache-2.0
"""The cluster agent on the host of slurmctld."""

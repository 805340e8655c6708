# SPDX-License-Identifier: Apache-2.0
"""Slurm: through the cluster agent, or through ssh to the login node."""

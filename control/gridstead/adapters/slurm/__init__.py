# SPDX-License-Identifier: Apache-2.0
"""Access to Slurm, through the cluster agent or through SSH to the login node."""

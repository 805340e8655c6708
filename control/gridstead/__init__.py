# SPDX-License-Identifier: Apache-2.0
"""The control plane of a Gridstead grid: contracts to Slurm jobs, and Slurm jobs to money."""

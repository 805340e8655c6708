# SPDX-License-Identifier: Apache-2.0
"""The control plane of a Gridstead grid. It runs the contracts' jobs in Slurm and settles them."""

# SPDX-License-Identifier: Apache-2.0
"""The `gridstead` command: parsing and printing, nothing else."""

# SPDX-License-Identifier: Apache-2.0
"""Slurm's own notation: host lists, and the hints of its plugins."""

# SPDX-License-Identifier: Apache-2.0
"""Parsers of Slurm's host lists and of the hints that its plugins send."""

# SPDX-License-Identifier: Apache-2.0
"""Adapters of CVMFS: HTTP, files on disk, and SQLite databases."""

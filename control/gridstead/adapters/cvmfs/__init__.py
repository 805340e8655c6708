# SPDX-License-Identifier: Apache-2.0
"""CVMFS over HTTP, on disk, and in SQLite."""

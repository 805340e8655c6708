# SPDX-License-Identifier: Apache-2.0
"""Stores and serves the output of jobs."""

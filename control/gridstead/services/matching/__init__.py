# SPDX-License-Identifier: Apache-2.0
"""Matches jobs to providers."""

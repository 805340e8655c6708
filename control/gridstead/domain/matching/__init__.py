# SPDX-License-Identifier: Apache-2.0
"""Chooses the provider of a job, and decides when a job expires."""

# SPDX-License-Identifier: Apache-2.0
"""Readers of the output of each program, and the labels for it."""

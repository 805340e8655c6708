# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the grid's contracts on an EVM chain."""

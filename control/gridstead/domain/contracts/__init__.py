# SPDX-License-Identifier: Apache-2.0
"""A set of contracts: its deployment, its state, and its administration."""

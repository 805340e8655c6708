# SPDX-License-Identifier: Apache-2.0
"""An EVM chain that holds the grid's contracts."""

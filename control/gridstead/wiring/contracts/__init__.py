# SPDX-License-Identifier: Apache-2.0
"""Starts the commands that deploy and change a set of contracts."""

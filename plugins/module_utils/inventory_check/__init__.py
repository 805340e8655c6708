# SPDX-License-Identifier: Apache-2.0
"""Finds all mistakes of an inventory. Connects to no host and changes nothing."""

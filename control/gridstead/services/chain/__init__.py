# SPDX-License-Identifier: Apache-2.0
"""Follows the events of the chain."""

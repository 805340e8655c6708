# SPDX-License-Identifier: Apache-2.0
"""Marks the root of the tests."""

# SPDX-License-Identifier: Apache-2.0
"""Measures nodes with ReFrame, and stores the results."""

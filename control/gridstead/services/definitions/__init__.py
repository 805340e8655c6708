# SPDX-License-Identifier: Apache-2.0
"""Stores job scripts and gives them to providers."""

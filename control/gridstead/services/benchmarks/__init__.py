# SPDX-License-Identifier: Apache-2.0
"""Measures the site."""

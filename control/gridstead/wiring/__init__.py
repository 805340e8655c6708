# SPDX-License-Identifier: Apache-2.0
"""The composition root: creates adapters and services from the settings, and makes no decisions."""

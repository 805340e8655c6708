# SPDX-License-Identifier: Apache-2.0
"""The composition root: creates the adapters and services from the settings."""

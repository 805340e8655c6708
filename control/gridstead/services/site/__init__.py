# SPDX-License-Identifier: Apache-2.0
"""Runs playbooks on a provider's site."""

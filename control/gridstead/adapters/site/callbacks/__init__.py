# SPDX-License-Identifier: Apache-2.0
"""Plugins that Ansible loads by path in its own process; nothing imports this package."""

# SPDX-License-Identifier: Apache-2.0
"""Runs playbooks with ansible-runner, which only hosts from which playbooks run need."""

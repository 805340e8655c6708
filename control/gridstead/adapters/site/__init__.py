# SPDX-License-Identifier: Apache-2.0
"""Runs playbooks with ansible-runner, which is installed only on the machine that runs Ansible."""

# SPDX-License-Identifier: Apache-2.0
"""Playbooks, run by ansible-runner, which only a machine that runs Ansible has installed."""

# SPDX-License-Identifier: Apache-2.0
"""Runs playbooks with ansible-runner. It is installed only on hosts from which playbooks run."""

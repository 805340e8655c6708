# SPDX-License-Identifier: Apache-2.0
"""Runs playbooks with ansible-runner, which is needed only on hosts that run playbooks."""

# SPDX-License-Identifier: Apache-2.0
"""A provider's site: runs of playbooks, and the verification of the hosts."""

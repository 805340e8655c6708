# SPDX-License-Identifier: Apache-2.0
"""What Ansible itself loads, by path, in its own process; nothing here is imported."""

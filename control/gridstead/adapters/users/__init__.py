# SPDX-License-Identifier: Apache-2.0
"""Users and directories of wallets: 389ds, the shared storage, SSH keys."""

# SPDX-License-Identifier: Apache-2.0
"""Linux users of wallets in 389 Directory Server, their directories, and the SSH keys file."""

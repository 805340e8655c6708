# SPDX-License-Identifier: Apache-2.0
"""Creates the Linux users of wallets and their directories."""

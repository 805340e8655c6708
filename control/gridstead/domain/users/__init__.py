# SPDX-License-Identifier: Apache-2.0
"""The Linux users of wallets."""

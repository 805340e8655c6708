# SPDX-License-Identifier: Apache-2.0
"""Sends the calls of a wallet's outbox."""

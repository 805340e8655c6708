# SPDX-License-Identifier: Apache-2.0
"""Calls to the contracts: grouped in batches, queued in an outbox, sent in order."""

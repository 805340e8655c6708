# SPDX-License-Identifier: Apache-2.0
"""The durable state of a service: journal, outbox, transactions and cursors."""

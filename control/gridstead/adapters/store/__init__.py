# SPDX-License-Identifier: Apache-2.0
"""The store of a service: its journal, outbox, transactions and cursors in a database."""

# SPDX-License-Identifier: Apache-2.0
"""Durable memory of a service: what it did, what it means to send, how far it has read."""

# SPDX-License-Identifier: Apache-2.0
"""Stored job scripts: their ids, and the challenge that a provider signs."""

# SPDX-License-Identifier: Apache-2.0
"""Composition root: settings -> adapters -> services. Knows everything, decides nothing."""

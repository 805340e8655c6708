# SPDX-License-Identifier: Apache-2.0
"""Encodes calls and sends transactions."""

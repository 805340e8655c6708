# SPDX-License-Identifier: Apache-2.0
"""Deploys a set of contracts, inspects it, and changes it."""

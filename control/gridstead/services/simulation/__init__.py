# SPDX-License-Identifier: Apache-2.0
"""Simulates a grid whose matches are decided by the code of the meta-scheduler."""

# SPDX-License-Identifier: Apache-2.0
"""A client of the meta-scheduler."""

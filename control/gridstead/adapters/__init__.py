# SPDX-License-Identifier: Apache-2.0
"""The outbound adapters. They implement the ports and convert values and errors of libraries."""

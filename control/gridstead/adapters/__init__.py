# SPDX-License-Identifier: Apache-2.0
"""The outbound adapters, which implement the ports.

They convert the values and errors of libraries to values and errors of Gridstead.
"""

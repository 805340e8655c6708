# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of benchmark programs, the labels from them, and which nodes are slow."""

# SPDX-License-Identifier: Apache-2.0
"""The output of jobs: lines, chunks, and the rights to read and write them."""

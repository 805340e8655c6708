# SPDX-License-Identifier: Apache-2.0
"""The output of jobs: lines, chunks, and who may read them."""

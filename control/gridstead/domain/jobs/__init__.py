# SPDX-License-Identifier: Apache-2.0
"""The identity of jobs, their states on the chain, and their cost."""

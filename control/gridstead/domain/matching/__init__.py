# SPDX-License-Identifier: Apache-2.0
"""Which provider gets a job, and when a wait ends."""

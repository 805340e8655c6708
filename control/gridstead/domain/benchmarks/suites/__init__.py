# SPDX-License-Identifier: Apache-2.0
"""The suites: the steps that each takes, and what it finds."""

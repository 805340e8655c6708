# SPDX-License-Identifier: Apache-2.0
"""Starts the Job Definition service, and creates the fetcher of modules for commands."""

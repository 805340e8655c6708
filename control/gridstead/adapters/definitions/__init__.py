# SPDX-License-Identifier: Apache-2.0
"""The store of job scripts, a client of its service, and modules from Git."""

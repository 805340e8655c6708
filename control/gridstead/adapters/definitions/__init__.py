# SPDX-License-Identifier: Apache-2.0
"""The store of job scripts, a client of the Job Definition service, and modules from git."""

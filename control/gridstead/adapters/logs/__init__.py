# SPDX-License-Identifier: Apache-2.0
"""Log files, the spool of a job's output, and a client of the logger."""

# SPDX-License-Identifier: Apache-2.0
"""Log files, the spool of a job's output, and the client of the logger."""

# SPDX-License-Identifier: Apache-2.0
"""What a supervisor decides: evidence of a job's end, the next actions, the settlement."""

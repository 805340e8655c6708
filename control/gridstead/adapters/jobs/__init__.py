# SPDX-License-Identifier: Apache-2.0
"""Programs that run inside a job."""

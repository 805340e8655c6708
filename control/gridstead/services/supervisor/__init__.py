# SPDX-License-Identifier: Apache-2.0
"""Claims jobs, runs them in Slurm, settles them, and registers the provider."""

# SPDX-License-Identifier: Apache-2.0
"""Jobs: their identity, their states on the chain, and their cost."""

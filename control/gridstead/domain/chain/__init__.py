# SPDX-License-Identifier: Apache-2.0
"""What the services read from the chain."""

# SPDX-License-Identifier: Apache-2.0
"""The outside world, inbound: gRPC and HTTP servers around plain callables."""

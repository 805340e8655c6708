# SPDX-License-Identifier: Apache-2.0
"""The servers of the logger: gRPC, and gRPC-web for browsers."""

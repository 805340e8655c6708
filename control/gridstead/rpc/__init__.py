# SPDX-License-Identifier: Apache-2.0
"""The inbound interfaces: gRPC and HTTP servers that call plain functions."""

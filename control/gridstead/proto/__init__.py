# SPDX-License-Identifier: Apache-2.0
"""The gRPC messages and services. `make proto` generates them from this folder's .proto files."""

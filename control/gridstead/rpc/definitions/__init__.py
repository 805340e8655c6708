# SPDX-License-Identifier: Apache-2.0
"""The servers of the Job Definition service: GraphQL for users, gRPC for providers."""

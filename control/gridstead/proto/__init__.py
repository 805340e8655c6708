# SPDX-License-Identifier: Apache-2.0
"""Wire formats. Messages are generated from the .proto files next to this one by `make proto`."""

# SPDX-License-Identifier: Apache-2.0
"""The services: a replica, and the client of a mount."""

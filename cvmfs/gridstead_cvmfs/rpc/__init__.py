# SPDX-License-Identifier: Apache-2.0
"""The servers: HTTP for CVMFS clients, and FUSE for the kernel."""

# SPDX-License-Identifier: Apache-2.0
"""CVMFS for Gridstead: replicas of repositories, and a client that mounts them."""

# SPDX-License-Identifier: Apache-2.0
"""The domain of CVMFS: read-only software trees that one server publishes and others copy.

This package parses and checks the files that a CVMFS server serves. The package does no
I/O and no logging, and uses no clock and no randomness.
"""

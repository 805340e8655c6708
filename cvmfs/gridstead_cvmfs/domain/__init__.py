# SPDX-License-Identifier: Apache-2.0
"""CVMFS: read-only software trees, published by one server and copied by others.

This package parses and checks the files that a CVMFS server serves. It does no I/O and no logging,
and uses no clock and no randomness.
"""

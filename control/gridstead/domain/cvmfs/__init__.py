# SPDX-License-Identifier: Apache-2.0
"""CVMFS: read-only software trees, published by one server and copied by others. The words of its
files on the web.
"""

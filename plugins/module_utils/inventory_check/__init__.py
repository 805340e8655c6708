# SPDX-License-Identifier: Apache-2.0
"""The checks of an inventory. They connect to no host and change nothing."""

# SPDX-License-Identifier: Apache-2.0
"""What should be true. Pure functions on frozen values: no I/O, no clock, no randomness, no
logging.
"""

# SPDX-License-Identifier: Apache-2.0
"""The user's workflow: text in, checked values, a batch script out."""

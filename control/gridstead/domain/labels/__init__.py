# SPDX-License-Identifier: Apache-2.0
"""The keys and values of labels, in the form in which providers publish them."""

# SPDX-License-Identifier: Apache-2.0
"""What is done, in which order. One module per service: gather, ask the domain, act through ports."""

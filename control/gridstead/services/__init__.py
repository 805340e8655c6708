# SPDX-License-Identifier: Apache-2.0
"""The services. A service reads through ports, lets the domain decide, and acts through ports."""

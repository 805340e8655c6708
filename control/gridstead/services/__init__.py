# SPDX-License-Identifier: Apache-2.0
"""The services, one module each. A service gathers data, asks the domain, acts through ports."""

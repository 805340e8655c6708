# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service, which stores job scripts and sends them to providers."""

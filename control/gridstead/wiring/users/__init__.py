# SPDX-License-Identifier: Apache-2.0
"""Starts the services that create users and directories."""

# SPDX-License-Identifier: Apache-2.0
"""Creates the services and their adapters from the settings."""

# SPDX-License-Identifier: Apache-2.0
"""The workflow language: parses and checks a workflow, and renders it as a batch script."""

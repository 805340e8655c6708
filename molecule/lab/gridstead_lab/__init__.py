# SPDX-License-Identifier: Apache-2.0
"""Real hosts on one machine: systemd-nspawn on overlay roots behind one bridge.

The package uses only the standard library, so that it runs before anything is installed.
"""

# SPDX-License-Identifier: Apache-2.0
"""Real hosts on one machine: systemd-nspawn on overlay roots behind one bridge.

Standard library only, so that the lab starts before anything is installed.
"""

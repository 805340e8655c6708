# SPDX-License-Identifier: Apache-2.0
"""Real hosts on one machine: systemd-nspawn on overlay roots behind one bridge.

It uses the standard library only, so that the lab can start before anything is installed.
"""

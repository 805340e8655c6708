# SPDX-License-Identifier: Apache-2.0
"""A virtual machine with a stock Debian 13, and the two runs that `make vm` makes on it.

The machine has the folders of a lab (see gridstead_lab.names), with the name ``vm``. Therefore the
lab's teardown removes it, even after a kill.
"""

# SPDX-License-Identifier: Apache-2.0
"""The decisions of the control plane: pure functions on frozen values.

A few classes are not frozen, for example ``JournalRecords``, which journal entries update. This
package does no I/O and no logging, and uses no clock and no randomness.
"""

# SPDX-License-Identifier: Apache-2.0
"""Everything that is wrong with an inventory, at once. Reaches no host and changes nothing."""

# SPDX-License-Identifier: Apache-2.0
"""The outside world, outbound. Each adapter translates foreign words and errors once."""

# SPDX-License-Identifier: Apache-2.0
"""The same random examples in every run, so what failed fails again; ``HYPOTHESIS_PROFILE=explore`` makes new ones.

No example has a deadline: how long one takes is the machine's.
"""

import os

from hypothesis import settings

settings.register_profile("repeat", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

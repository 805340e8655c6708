# SPDX-License-Identifier: Apache-2.0
"""What all tests have in common: their random examples, and processes that may start others.

The examples are the same in every run, so what failed fails again; ``HYPOTHESIS_PROFILE=explore`` makes new ones. None
has a deadline: how long one takes is the machine's.

A test process speaks gRPC to itself and starts servers. By default gRPC starts its poller again in each copy that a
fork makes, and the poller may crash the copy before that becomes the program it was made for (grpc/grpc#43055). No copy
of a test process uses gRPC, so it is told to leave them alone. The services need no such word: what they start they
start with vfork, of which gRPC sees nothing.
"""

import os

from hypothesis import settings

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"  # read when gRPC is imported

settings.register_profile("repeat", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon the hosts of the standing lab know a new user, and how long a dead directory keeps a
look-up waiting.

A user is usable when every host knows it, counted from the directory's answer to who made it; each
is asked for before it is there, which hosts remember. Then the directory dies in three ways, and
each host asks for a stranger while it is connected, for another one at once, and for a user that it
knows. It ends with 1 if a bar is missed.
"""

import argparse
import contextlib
import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))

from tests.e2e.conftest import Lab, people  # noqa: E402
from tests.e2e.test_directory import CLIENTS, MANAGER, SERVER, Account, dn, user  # noqa: E402

NEW_BAR_S, DEAD_BAR_S = 2.0, 4.0
ROUNDS = 5
# The lab's hosts have one clock, that of the machine.
KNOWN_AT = (
    "! getent passwd {0} && until getent passwd {0} >/dev/null; do sleep 0.02; done; date +%s.%N"
)
LOOK_UP = (
    "began=$(date +%s.%N); getent passwd {} >/dev/null || test $? = 2; echo $(date +%s.%N) $began"
)
UNIT = "dirsrv@gridstead"
CUT_OFF = "nft add table inet {0} && nft add chain inet {0} in '{{ type filter hook input priority -300; }}'"
CUT_OFF += " && nft add rule inet {0} in iifname != lo tcp dport 636 drop"
DEATHS = {
    "stopped": (f"systemctl stop {UNIT}", f"systemctl start {UNIT}"),
    "frozen": (f"systemctl kill --signal=STOP {UNIT}", f"systemctl kill --signal=CONT {UNIT}"),
    "cut off": (CUT_OFF.format("gridstead_bench"), "nft delete table inet gridstead_bench"),
}


class Bench:
    """The lab, the directory's writer, and users that are gone at the end."""

    def __init__(self, lab):
        self.lab = lab
        self._connector = Account(lab, "connector")
        self._users = []

    def address(self):
        """Return a wallet that nobody has asked for."""
        self._users.append(f"0x{secrets.token_hex(20)}")
        return self._users[-1]

    def make(self, address):
        """Make a user and return when the directory had answered, in seconds since 1970."""
        answer = self._connector.do("add", dn(address), user(address))
        if answer != "done":
            raise RuntimeError(f"the directory answers {answer}")
        return time.time()

    def everywhere(self, script):
        """Return what a script prints on each host, all at once."""
        with ThreadPoolExecutor(len(CLIENTS)) as pool:
            return list(pool.map(lambda host: self.lab.sh(host, script), CLIENTS))

    def new_user(self):
        """Return how long after its making the last host knew a user, seconds."""
        address = self.address()
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(self.everywhere, KNOWN_AT.format(address))
            time.sleep(1)
            made = self.make(address)
            return max(0.0, max(map(float, told.result())) - made)

    def longest(self, address):
        """Return how long the slowest host took to look a user up, seconds."""
        pairs = (told.split() for told in self.everywhere(LOOK_UP.format(address)))
        return max(float(end) - float(began) for end, began in pairs)

    def dead(self, death):
        """Return the longest look-ups while the directory is dead: a stranger, the next stranger, a
        known user.
        """
        known = self.address()
        self.make(known)
        self.everywhere(f"until getent passwd {known} >/dev/null; do sleep 0.2; done")
        kill, mend = DEATHS[death]
        self.lab.sh(SERVER, kill)
        try:
            return [self.longest(one) for one in (self.address(), self.address(), known)]
        finally:
            self.lab.sh(SERVER, mend)

    def close(self):
        """Remove the users."""
        for address in self._users:
            self.lab.run(SERVER, "ldapdelete", *MANAGER, dn(address), check=False)


def main():
    """Measure and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="users to make (default %(default)s)"
    )
    rounds = parser.parse_args().rounds
    with contextlib.closing(Bench(Lab(people.lab_grid().folder))) as bench:
        new = max(bench.new_user() for _ in range(rounds))
        print(
            f"every host knows a new user after {new:.2f} s at most, of {rounds} users (bar {NEW_BAR_S:.0f})"
        )
        worst = 0.0
        for death in DEATHS:
            times = bench.dead(death)
            worst = max(worst, *times)
            shown = "a stranger {:.2f} s, the next {:.2f} s, a known user {:.2f} s".format(*times)
            print(f"directory {death}: {shown}")
        print(f"a dead directory keeps a look-up {worst:.2f} s at most (bar {DEAD_BAR_S:.0f})")
    return 0 if new <= NEW_BAR_S and worst <= DEAD_BAR_S else 1


if __name__ == "__main__":
    sys.exit(main())

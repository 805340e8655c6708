# SPDX-License-Identifier: Apache-2.0
"""A site has something to lose: a paid job, one that runs, one that waits. All of it is written
down.
"""

import json

from tests.e2e.conftest import wait_until


def test_a_site_that_owes_something_is_remembered(lab, grid, site, picture):
    someone = site.customer("creditor")
    paid = site.greet(someone)
    grid.wait(someone, paid, "FINISHED", timeout=180)
    # The node has memory for one of them.
    runs = grid.submit(someone, "sleep 3000", memory_mb=1500)
    grid.wait(someone, runs, "RUNNING", timeout=180)
    waits = grid.submit(someone, "sleep 3000", memory_mb=1500)
    wait_until(
        lambda: [one["state"] for one in lab.sacct(f"0x{waits:064x}")] == ["PENDING"], timeout=180
    )
    jobs = {"paid": paid, "runs": runs, "waits": waits}
    grid.check_money(someone, paid)

    picture.write_text(
        json.dumps(
            {
                "numbers": jobs,
                "slurm": {
                    name: lab.sacct(f"0x{number:064x}")[-1]["jobid"]
                    for name, number in jobs.items()
                },
                "obligations": {
                    name: site.obligation(someone, number) for name, number in jobs.items()
                },
                "output": site.output(someone, paid),
                "balances": site.balances(someone),
                "accounting": site.jobs(),
                "associations": site.associations(),
                "people": site.people(),
                "journals": site.journals(),
            }
        )
    )
    seen = json.loads(picture.read_text())
    assert all(seen[name] for name in ("output", "accounting", "associations", "people"))
    assert all(seen["journals"].values())

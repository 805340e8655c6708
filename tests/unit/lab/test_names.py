# SPDX-License-Identifier: Apache-2.0
"""Names of a lab's objects."""

import re
from pathlib import Path

import pytest

from gridstead_lab import names
from gridstead_lab.errors import LabError
from gridstead_lab.network import FIRST_HOST
from gridstead_lab.topology import MAX_HOSTS

INTERFACE_NAME_MAX = 15  # IFNAMSIZ less the closing zero


@pytest.mark.parametrize("lab", ["", "Upper", "a/b", "..", "-x", "x" * 41])
def test_a_lab_name_that_is_no_plain_word_is_refused(lab):
    with pytest.raises(LabError, match="lab name"):
        names.names(Path("/srv/checkout"), lab)


def test_the_prefix_is_gs_and_four_hex_digits():
    mine = names.names(Path("/srv/checkout"), "default")

    assert re.fullmatch(r"gs[0-9a-f]{4}", mine.prefix)


def test_labs_of_one_checkout_and_checkouts_of_one_lab_have_other_prefixes():
    places = [
        names.names(Path(path), lab).prefix
        for path in ("/srv/a", "/srv/b")
        for lab in ("one", "two")
    ]

    assert len(set(places)) == 4


@pytest.mark.parametrize("octet", [FIRST_HOST, FIRST_HOST + MAX_HOSTS - 1])
def test_interface_names_start_with_the_prefix_and_fit_the_kernel(octet):
    mine = names.names(Path("/srv/checkout"), "x" * 40)

    for name in (mine.bridge, mine.veth(octet)):
        assert name.startswith(mine.prefix)
        assert len(name) <= INTERFACE_NAME_MAX


def test_the_last_host_still_fits_into_a_subnet():
    assert FIRST_HOST + MAX_HOSTS - 1 < 255


def test_sockets_of_kept_connections_fit_the_kernels_108_bytes():
    mine = names.names(Path("/srv/" + "long/" * 60), "x" * 40)

    assert len(str(mine.sockets)) + len("/0123456789.0123456789abcdef") < 108

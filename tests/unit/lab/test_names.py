# SPDX-License-Identifier: Apache-2.0
"""The names of a lab's objects."""

import re
from pathlib import Path

import pytest

from gridstead_lab import names
from gridstead_lab.errors import LabError
from gridstead_lab.network import FIRST_HOST
from gridstead_lab.topology import MAX_HOSTS

INTERFACE_NAME_MAX = 15  # IFNAMSIZ without the terminating null byte


@pytest.mark.parametrize("lab", ["", "Upper", "a/b", "..", "-x", "x" * 41])
def test_an_invalid_lab_name_is_refused(lab):
    with pytest.raises(LabError, match="lab name"):
        names.names(Path("/srv/checkout"), lab)


def test_the_prefix_is_gs_and_four_hex_digits():
    lab_names = names.names(Path("/srv/checkout"), "default")

    assert re.fullmatch(r"gs[0-9a-f]{4}", lab_names.prefix)


def test_prefixes_differ_by_checkout_and_by_lab():
    pairs = [("/srv/a", "one"), ("/srv/a", "two"), ("/srv/b", "one"), ("/srv/b", "two")]

    prefixes = set()
    for path, lab in pairs:
        prefixes.add(names.names(Path(path), lab).prefix)

    assert len(prefixes) == 4


@pytest.mark.parametrize("octet", [FIRST_HOST, FIRST_HOST + MAX_HOSTS - 1])
def test_interface_names_start_with_the_prefix_and_fit_the_kernel(octet):
    lab_names = names.names(Path("/srv/checkout"), "x" * 40)

    for name in (lab_names.bridge, lab_names.veth(octet)):
        assert name.startswith(lab_names.prefix)
        assert len(name) <= INTERFACE_NAME_MAX


def test_the_last_host_fits_into_a_subnet():
    assert FIRST_HOST + MAX_HOSTS - 1 < 255


def test_control_socket_paths_fit_into_108_bytes():
    lab_names = names.names(Path("/srv/" + "long/" * 60), "x" * 40)

    assert len(str(lab_names.ssh_socket_folder)) + len("/0123456789.0123456789abcdef") < 108

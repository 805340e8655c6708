# SPDX-License-Identifier: Apache-2.0
"""The upstream version of a Debian version, as a program prints it."""

import pytest
from ansible.template import Templar, trust_as_template


@pytest.mark.parametrize(
    ("version", "upstream"),
    [
        ("24.11.5-4+deb13u1", "24.11.5"),
        ("1:11.8.3-0+deb13u1", "11.8.3"),
        ("3.1.2+dfsg1-1", "3.1.2"),
        ("2", "2"),
        ("", ""),
        ("unknown", "unknown"),
    ],
)
def test_every_playbook_can_use_the_version_filter(version, upstream):
    templar = Templar(variables={"version": version})

    assert (
        templar.template(
            trust_as_template("{{ version | gridstead.site.upstream_version }}"), convert_data=False
        )
        == upstream
    )

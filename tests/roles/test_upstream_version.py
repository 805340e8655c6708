# SPDX-License-Identifier: Apache-2.0
"""Filter upstream_version returns the upstream version in a Debian version."""

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
def test_the_epoch_and_the_debian_revision_are_removed(version, upstream):
    templar = Templar(variables={"version": version})
    template = trust_as_template("{{ version | gridstead.site.upstream_version }}")

    assert templar.template(template, convert_data=False) == upstream

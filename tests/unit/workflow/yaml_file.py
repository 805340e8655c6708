# SPDX-License-Identifier: Apache-2.0
"""Writes values as a YAML file that is parsed to the same values."""

from __future__ import annotations

import yaml


class _Quoting(yaml.CSafeDumper):
    """Writes every text in quotes.

    PyYAML follows YAML 1.1, in which plain ``0E0`` is text. In YAML 1.2 it is a number.
    """

    def ignore_aliases(self, _data):
        return True


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def written(value):
    """Return a YAML file with these values, without aliases."""
    return yaml.dump(value, Dumper=_Quoting, sort_keys=False, allow_unicode=True)

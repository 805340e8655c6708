# SPDX-License-Identifier: Apache-2.0
"""Conversion of values to YAML that is parsed to the same values."""

from __future__ import annotations

import yaml


class _QuotingDumper(yaml.CSafeDumper):
    """Quotes every text, and writes no aliases.

    PyYAML follows YAML 1.1, in which plain ``0E0`` is text. In YAML 1.2 it is a number.
    """

    def ignore_aliases(self, _data):
        return True


_QuotingDumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def to_yaml(value):
    """Return the value as YAML."""
    return yaml.dump(value, Dumper=_QuotingDumper, sort_keys=False, allow_unicode=True)

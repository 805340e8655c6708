# SPDX-License-Identifier: Apache-2.0
"""Values as the text of a YAML file that says them again."""

from __future__ import annotations

import yaml


class _Quoting(yaml.CSafeDumper):
    """Writes each text in quotes: PyYAML goes by YAML 1.1, for which plain ``0E0`` is text; for 1.2
    it is a number.
    """

    def ignore_aliases(self, _data):
        return True


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def written(value):
    """A file of these values, each of them in full."""
    return yaml.dump(value, Dumper=_Quoting, sort_keys=False, allow_unicode=True)

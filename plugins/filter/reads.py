# SPDX-License-Identifier: Apache-2.0
"""Filter ``files_read``: the files that a service of the control plane reads when it starts.

Example:
``{{ {'tls': {'ca_file': '/ca.crt'}} | gridstead.site.files_read({'tls.key': '/etc/a.key'}) }}`` is
``['/ca.crt', '/etc/a.key']``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# /run contains copies of credentials, whose sources are listed. Services themselves write to /var.
EXCLUDED = ("/run/", "/var/")


def files_read(settings: Mapping[str, object], credentials: Mapping[str, str]) -> list[str]:
    """Return the sources of the credentials and the files of all ``*_file`` settings.

    The paths are sorted and unique.
    """
    return sorted({*credentials.values(), *_named(settings)})


def _named(settings: Mapping[str, object]) -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _named(value)
        elif key.endswith("_file") and isinstance(value, str) and not value.startswith(EXCLUDED):
            yield value


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"files_read": files_read}

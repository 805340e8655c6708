# SPDX-License-Identifier: Apache-2.0
"""Filter ``files_read``: the files that a service of the control plane reads at its start.

Example:
``{{ {'tls': {'ca_file': '/ca.crt'}} | gridstead.site.files_read({'tls.key': '/etc/a.key'}) }}`` is
``['/ca.crt', '/etc/a.key']``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# Files in /run are copies of credentials. Instead of the copies, the filter returns the sources of
# the credentials. Files in /var are written by the services themselves.
EXCLUDED_FOLDERS = ("/run/", "/var/")


def files_read(settings: Mapping[str, object], credentials: Mapping[str, str]) -> list[str]:
    """Return the sorted paths of the credentials and of all ``*_file`` settings, each once.

    Args:
        settings: The settings of the service, in nested tables.
        credentials: The path of the source of each systemd credential.
    """
    return sorted({*credentials.values(), *_setting_files(settings)})


def _setting_files(settings: Mapping[str, object]) -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _setting_files(value)
        elif (
            key.endswith("_file")
            and isinstance(value, str)
            and not value.startswith(EXCLUDED_FOLDERS)
        ):
            yield value


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"files_read": files_read}

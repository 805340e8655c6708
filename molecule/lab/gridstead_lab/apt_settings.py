# SPDX-License-Identifier: Apache-2.0
"""The settings with which this machine's apt reaches its mirrors, for the apt of the image."""

import re
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

# These settings do not change how apt reaches a mirror, for example the format of stored indexes.
LOCAL_GROUPS = (
    "Changelogs",
    "CompressionTypes",
    "GzipIndexes",
    "IndexTargets",
    "Languages",
    "cdrom",
)
SETTING = re.compile(r'Acquire::([\w-]+)(::\S*)? ".+";')
# Names a program that prints the proxy for a URI. The image does not contain the program.
PROXY_PROGRAM = re.compile(r'Acquire::(https?)::Proxy-?Auto-?Detect "(.+)";', re.IGNORECASE)


def acquire_settings(dump: str, uris: Iterable[str], run: Callable[[list[str]], str]) -> str:
    """Return the lines of apt's configuration that the image needs.

    Args:
        dump: The output of ``apt-config dump``.
        uris: The URIs of the apt sources.
        run: Runs a program and returns its output. Called only for a program that detects proxies.
    """
    lines = []
    for line in dump.splitlines():
        setting = SETTING.fullmatch(line)
        if setting is None or setting[1] in LOCAL_GROUPS:
            continue
        proxy_program = PROXY_PROGRAM.fullmatch(line)
        if proxy_program is None:
            lines.append(line)
        else:
            scheme, program = proxy_program.groups()
            lines += _detected_proxies(scheme, program, uris, run)
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def _detected_proxies(
    scheme: str, program: str, uris: Iterable[str], run: Callable[[list[str]], str]
) -> list[str]:
    """Return one setting for each host of the sources for which the program prints a proxy."""
    lines = []
    for uri in uris:
        address = urlsplit(uri)
        if address.scheme != scheme:
            continue
        printed_words = run([program, uri]).split()
        if printed_words:
            proxy = printed_words[0]
            lines.append(f'Acquire::{scheme}::Proxy::{address.hostname} "{proxy}";')
    return lines

# SPDX-License-Identifier: Apache-2.0
"""The apt sources of the lab: the machine's sources, changed to the Debian suite of the lab."""

import itertools
import re

from gridstead_lab.errors import LabError

SUITE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def for_lab_suite(texts: list[str], codename: str) -> tuple[str, ...]:
    """Return one-line sources for the lab's suite, sorted and without duplicates.

    Args:
        texts: The texts of the machine's sources, in one-line or deb822 format.
        codename: The Debian suite of the machine, as in /etc/os-release.

    Raises:
        LabError: If no source contains the codename.
    """
    lines = set()
    for text in texts:
        for uri, suite in [*_one_line(text), *_deb822(text)]:
            name, _, part = suite.partition("-")  # for example bookworm-updates
            if name == codename and part in {"", "updates", "security"}:
                new = f"{SUITE}-{part}" if part else SUITE
                lines.add(f"deb [signed-by={KEYRING}] {uri} {new} main")
    if not lines:
        message = f"no apt source of this machine names the suite {codename}"
        raise LabError(message, "The lab needs a Debian machine with a mirror in its apt sources.")
    return tuple(sorted(lines))


def _one_line(text: str) -> list[tuple[str, str]]:
    pattern = re.compile(r"^deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)", re.MULTILINE)
    return pattern.findall(text)


def _deb822(text: str) -> list[tuple[str, str]]:
    pairs = []
    for stanza in re.split(r"\n\s*\n", text):
        words = _words(stanza)
        if "deb" in words.get("types", ()) and words.get("enabled", ["yes"]) != ["no"]:
            pairs += itertools.product(words["uris"], words["suites"])
    return pairs


def _words(stanza: str) -> dict[str, list[str]]:
    """Return the words of each field of a stanza. The keys are field names in lower case."""
    words = {}
    for line in stanza.splitlines():
        if re.match(r"[A-Za-z-]+:", line):
            name, _, value = line.partition(":")
            words[name.lower()] = value.split()
    return words

# SPDX-License-Identifier: Apache-2.0
"""The apt sources of the lab: the machine's sources, changed to the Debian suite of the lab."""

import itertools
import re
from pathlib import Path

from gridstead_lab.errors import LabError

SUITE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# The URI of a file that lists mirrors, see apt-transport-mirror(1).
MIRROR_LIST = re.compile(r"mirror\+(?:file|copy):(?://)?(/.*)")
PRIORITY = re.compile(r"priority:(\d+)")
LOWEST_PRIORITY = 2**32


def for_lab_suite(texts: list[str], codename: str) -> tuple[str, ...]:
    """Return one-line sources for the lab's suite, sorted and without duplicates.

    Ignores sources that are not from Debian: sources without component ``main``, and sources that
    are signed by other keys. If a source names a list of mirrors, the result contains the preferred
    mirror of the list, because the image does not contain the list.

    Args:
        texts: The texts of the machine's sources, in one-line or deb822 format.
        codename: The Debian suite of the machine, as in /etc/os-release.

    Raises:
        LabError: If no source contains the codename, or a list of mirrors cannot be read.
    """
    lines = set()
    for text in texts:
        for uri, suite in [*_one_line(text), *_deb822(text)]:
            name, _, suffix = suite.partition("-")  # for example bookworm-updates
            if name == codename and suffix in {"", "updates", "security"}:
                lab_suite = f"{SUITE}-{suffix}" if suffix else SUITE
                lines.add(f"deb [signed-by={KEYRING}] {_mirror(uri)} {lab_suite} main")
    if not lines:
        message = f"no apt source of this machine names the suite {codename}"
        raise LabError(message, "The lab needs a Debian machine with a mirror in its apt sources.")
    return tuple(sorted(lines))


def preferred_mirror(text: str) -> str:
    """Return the URI with the lowest priority number in a list of mirrors.

    Lines can end with fields such as ``priority:1``. The function ignores mirrors with a field
    ``type:``, which have only some of the files. Returns an empty text for an empty list.
    """
    best_uri, best_priority = "", LOWEST_PRIORITY + 1
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        uri, *fields = words
        if any(field.startswith("type:") for field in fields):
            continue
        numbers = PRIORITY.findall(" ".join(fields))
        priority = int(numbers[0]) if numbers else LOWEST_PRIORITY
        if priority < best_priority:
            best_uri, best_priority = uri, priority
    return best_uri


def _mirror(uri: str) -> str:
    """Return the URI, or the preferred mirror if the URI names a list of mirrors."""
    mirror_list = MIRROR_LIST.fullmatch(uri)
    if mirror_list is None:
        return uri
    file = Path(mirror_list[1])
    hint = f"An apt source of this machine names the list of mirrors: {uri}."
    try:
        mirror = preferred_mirror(file.read_text())
    except OSError as err:
        message = f"could not read {file}: {err.strerror}"
        raise LabError(message, hint) from err
    if not mirror:
        message = f"{file} contains no mirror"
        raise LabError(message, hint)
    return mirror


def _one_line(text: str) -> list[tuple[str, str]]:
    pattern = re.compile(
        r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<components>.*)",
        re.MULTILINE,
    )
    pairs = []
    for match in pattern.finditer(text):
        keyrings = re.findall(r"signed-by=(\S+)", match["options"] or "")
        if "main" in match["components"].split() and _is_signed_by_debian(keyrings):
            pairs.append((match["uri"], match["suite"]))
    return pairs


def _deb822(text: str) -> list[tuple[str, str]]:
    pairs = []
    for stanza in re.split(r"\n\s*\n", text):
        words = _words_by_field(stanza)
        if "deb" not in words.get("types", ()) or words.get("enabled", ["yes"]) == ["no"]:
            continue
        if "main" in words.get("components", ()) and _is_signed_by_debian(words.get("signed-by")):
            pairs += itertools.product(words["uris"], words["suites"])
    return pairs


def _is_signed_by_debian(keys: list[str] | None) -> bool:
    """Return whether the words of a Signed-By option are absent or name a keyring of Debian."""
    return not keys or any("debian" in key for key in keys)


def _words_by_field(stanza: str) -> dict[str, list[str]]:
    """Return the words of each field of a stanza. The keys are field names in lower case.

    A line that starts with a space continues the field above.
    """
    words: dict[str, list[str]] = {}
    field = ""
    for line in stanza.splitlines():
        if re.match(r"[A-Za-z-]+:", line):
            name, _, text = line.partition(":")
            field = name.lower()
            words[field] = text.split()
        elif field and line.startswith((" ", "\t")):
            words[field] += line.split()
    return words

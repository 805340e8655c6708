# SPDX-License-Identifier: Apache-2.0
"""The machine's apt sources turned into those of the lab's Debian. Pure.

The lab takes the mirror the machine itself uses; only the suite differs.
"""

import re

from gridstead_lab.errors import LabError

SUITE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def translate(texts: list[str], codename: str) -> tuple[str, ...]:
    """Return one-line sources for the lab's suite, sorted, each once.

    Args:
        texts: Contents of the machine's sources, one-line or deb822 form.
        codename: The machine's own Debian suite, as in /etc/os-release.

    Raises:
        LabError: If no source names the codename.
    """
    found = set()
    for text in texts:
        for uri, suite in [*_one_line(text), *_deb822(text)]:
            name, _, part = suite.partition("-")
            if name == codename and part in {"", "updates", "security"}:
                new = f"{SUITE}-{part}" if part else SUITE
                found.add(f"deb [signed-by={KEYRING}] {uri} {new} main")
    if not found:
        message = f"no apt source of this machine names the suite {codename}"
        raise LabError(message, "The lab needs a Debian machine with a mirror in its apt sources.")
    return tuple(sorted(found))


def _one_line(text: str) -> list[tuple[str, str]]:
    pattern = re.compile(r"^deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)", re.MULTILINE)
    return pattern.findall(text)


def _deb822(text: str) -> list[tuple[str, str]]:
    found = []
    for stanza in re.split(r"\n\s*\n", text):
        lines = [line for line in stanza.splitlines() if not line.startswith("#")]
        fields = dict(line.split(":", 1) for line in lines if re.match(r"[A-Za-z-]+:", line))
        words = {key.lower(): value.split() for key, value in fields.items()}
        if "deb" in words.get("types", ()) and words.get("enabled", ["yes"]) != ["no"]:
            found += [(uri, suite) for uri in words["uris"] for suite in words["suites"]]
    return found

# SPDX-License-Identifier: Apache-2.0
"""Role container_runtime with what the lab itself does without: a mirror for Apptainer, and
packages of Enroot.

It runs on the login host, whose Apptainer goes and comes again from a mirror there, made of what
the host has.
"""

import base64
import os
import re
import subprocess
from typing import NamedTuple

import pytest
from tests.e2e.conftest import CHECKOUT

pytestmark = pytest.mark.hosts

PORT = 8451
PLACE = "/var/tmp/mirror"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SOURCES = "/etc/apt/sources.list.d"
PLAY = """\
- hosts: login
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: container_runtime, tasks_from: validate}
    - ansible.builtin.import_role: {name: container_runtime, tasks_from: install}
"""

# Packs Apptainer as it is installed; curl of a version that nobody should want; and something for
# Enroot.
PACK = r"""
mkdir -p "$1"/debian/{pool,dists/sid/main/binary-amd64} "$1"/{apptainer,curl,enroot}/DEBIAN; cd "$1"
dpkg -L apptainer | while read -r file; do
  if [ -f "$file" ] || [ -L "$file" ]; then cp -a --parents "$file" apptainer; fi
done
describe() { # name, version, what it depends on
  printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: x <x@x>\nDescription: x\nDepends: %s\n' "$@" \
    >"$1/DEBIAN/control"
}
describe apptainer "$(dpkg-query -W -f='${Version}' apptainer)" "$(dpkg-query -W -f='${Depends}' apptainer)"
dpkg-query -W -f='${Conffiles}\n' apptainer | awk 'NF { print $1 }' >apptainer/DEBIAN/conffiles
for name in curl enroot; do describe "$name" 99 libc6; done
mkdir -p enroot/usr/share/enroot; echo here >enroot/usr/share/enroot/from-a-package
dpkg-deb --build -Znone enroot >&2
for name in apptainer curl; do
  file=pool/$name.deb
  dpkg-deb --build -Znone "$name" "debian/$file" >&2
  dpkg-deb -f "debian/$file"
  printf 'Filename: %s\nSize: %s\nSHA256: ' "$file" "$(stat -c %s "debian/$file")"
  sha256sum <"debian/$file" | cut -c-64
  echo
done >debian/dists/sid/main/binary-amd64/Packages
cd debian/dists/sid
printf 'Suite: unstable\nCodename: sid\nComponents: main\nArchitectures: amd64\nDate: %s\nSHA256:\n' "$(date -uR)"
printf ' %s %s main/binary-amd64/Packages\n' "$(sha256sum <main/binary-amd64/Packages | cut -c-64)" \
  "$(stat -c %s main/binary-amd64/Packages)"
"""


class Mirror(NamedTuple):
    """Where it is, and its version of Apptainer."""

    url: str
    version: str


def signed(text, folder):
    """Return a text with a signature, and who can tell that it is right, in base64."""
    environment = {"PATH": os.environ["PATH"], "GNUPGHOME": str(folder)}

    def gpg(*words, **options):
        return subprocess.run(
            ["gpg", "--batch", "--quiet", *words],
            env=environment,
            check=True,
            capture_output=True,
            **options,
        ).stdout

    gpg("--passphrase", "", "--quick-generate-key", "tests <tests@x>", "ed25519", "sign")
    inline = gpg("--clearsign", input=text.encode()).decode()
    key = base64.b64encode(gpg("--export")).decode()
    subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=environment, check=True)
    return inline, key


@pytest.fixture(scope="module")
def mirror(lab, tmp_path_factory):
    """A mirror on the login host, which has no Apptainer."""
    version = lab.sh("login", "dpkg-query -W -f='${Version}' apptainer")
    release = lab.run("login", "bash", "-euc", PACK, "bash", PLACE).stdout
    inline, key = signed(release, tmp_path_factory.mktemp("gpg", numbered=True))
    lab.run("login", "tee", f"{PLACE}/debian/dists/sid/InRelease", input=inline)
    lab.sh(
        "login",
        f"mv {SOURCES}/0000lab.list {PLACE}; cp --remove-destination {KEYRING} {PLACE}/keyring; "
        f"base64 -d >{PLACE}/tests.gpg; mount --bind {PLACE}/tests.gpg {KEYRING}; apt-get -qq purge -y apptainer >&2; "
        f"systemd-run --quiet --unit=test-mirror --working-directory={PLACE} python3 -m http.server {PORT}",
        input=key,
    )
    yield Mirror(url=f"http://127.0.0.1:{PORT}/debian", version=version)
    lab.sh(
        "login",
        f"""systemctl stop test-mirror; umount {KEYRING}; dpkg --purge enroot
        rm -f {SOURCES}/gridstead-apptainer.sources /etc/apt/preferences.d/gridstead-apptainer.pref
        rm -rf /var/cache/gridstead/container_runtime /var/lib/apt/lists/127.0.0.1*
        mv {PLACE}/0000lab.list {SOURCES}
        dpkg-query -W apptainer || dpkg --install {PLACE}/debian/pool/apptainer.deb
        rm -r {PLACE}""",
    )


@pytest.fixture(scope="module")
def role(mirror, tmp_path_factory):
    """Run the role with packages of Enroot; return how it ended, and what it said."""
    play = tmp_path_factory.mktemp("play") / "play.yml"
    play.write_text(PLAY)

    def run(packages):
        words = {
            "container_runtime_mirror": mirror.url,
            "container_runtime_enroot_packages": packages,
        }
        done = subprocess.run(
            ["ansible-playbook", play, "-e", repr(words)],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


def wanted(lab, package):
    """Return which version of a package is installed and which one an upgrade would take."""
    found = re.findall(
        r"^  (?:Installed|Candidate): (\S+)",
        lab.sh("login", f"apt-cache policy {package}"),
        re.MULTILINE,
    )
    return tuple(found)


def test_the_role_takes_apptainer_from_its_mirror_and_enroot_by_its_checksum(lab, mirror, role):
    """A mirror that was written down and then did not answer is asked by the next run."""
    checksum = lab.sh("login", f"sha256sum {PLACE}/enroot.deb")[:64]
    curl = wanted(lab, "curl")[0]

    code, output = role([{"url": f"file://{PLACE}/enroot.deb", "checksum": f"sha256:{'0' * 64}"}])

    assert code != 0
    assert "The checksum for" in output
    assert wanted(lab, "apptainer") == (mirror.version, mirror.version)
    assert wanted(lab, "curl") == (curl, curl)  # the mirror has 99
    assert wanted(lab, "enroot") == ()

    lab.sh("login", "apt-get -qq purge -y apptainer >&2; rm /var/lib/apt/lists/127.0.0.1*")
    code, output = role([{"url": f"file://{PLACE}/enroot.deb", "checksum": f"sha256:{checksum}"}])

    assert code == 0, output
    assert wanted(lab, "apptainer") == (mirror.version, mirror.version)
    assert "apptainer version" in lab.sh("login", "apptainer --version")
    assert lab.run("login", "cat", "/usr/share/enroot/from-a-package").stdout == "here\n"

# SPDX-License-Identifier: Apache-2.0
"""Role container_runtime with a package mirror for Apptainer, and with packages of Enroot.

The lab itself uses neither. The tests run the role on the login host: they build a mirror from the
installed Apptainer, remove Apptainer and install it again from the mirror.
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
    - ansible.builtin.import_role: {name: gridstead.site.container_runtime, tasks_from: validate}
    - ansible.builtin.import_role: {name: gridstead.site.container_runtime, tasks_from: install}
"""

# Builds packages of the installed Apptainer, of a curl version that must not be installed, and of a
# substitute for Enroot.
PACK = r"""
mkdir -p "$1"/debian/{pool,dists/sid/main/binary-amd64} "$1"/{apptainer,curl,enroot}/DEBIAN; cd "$1"
dpkg -L apptainer | while read -r file; do
  if [ -f "$file" ] || [ -L "$file" ]; then cp -a --parents "$file" apptainer; fi
done
describe() { # name, version, dependencies
  {
    printf 'Package: %s\nVersion: %s\nDepends: %s\n' "$@"
    printf 'Architecture: amd64\nMaintainer: x <x@x>\nDescription: x\n'
  } >"$1/DEBIAN/control"
}
describe apptainer "$(dpkg-query -W -f='${Version}' apptainer)" \
  "$(dpkg-query -W -f='${Depends}' apptainer)"
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
printf 'Suite: unstable\nCodename: sid\nComponents: main\nArchitectures: amd64\n'
printf 'Date: %s\nSHA256:\n' "$(date -uR)"
checksum=$(sha256sum <main/binary-amd64/Packages | cut -c-64)
printf ' %s %s main/binary-amd64/Packages\n' "$checksum" \
  "$(stat -c %s main/binary-amd64/Packages)"
"""


class Mirror(NamedTuple):
    """A package mirror and its version of Apptainer."""

    url: str
    version: str


def signed(text, folder):
    """Return a text with its signature, and the public key in base64."""
    environment = {"PATH": os.environ["PATH"], "GNUPGHOME": str(folder)}

    def gpg(*arguments, **options):
        return subprocess.run(
            ["gpg", "--batch", "--quiet", *arguments],
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
    """A mirror on the login host, after Apptainer has been removed from the host."""
    version = lab.sh("login", "dpkg-query -W -f='${Version}' apptainer")
    release = lab.run("login", "bash", "-euc", PACK, "bash", PLACE).stdout
    inline, key = signed(release, tmp_path_factory.mktemp("gpg", numbered=True))
    lab.run("login", "tee", f"{PLACE}/debian/dists/sid/InRelease", input=inline)
    lab.sh(
        "login",
        f"mv {SOURCES}/0000lab.list {PLACE}; cp --remove-destination {KEYRING} {PLACE}/keyring; "
        f"base64 -d >{PLACE}/tests.gpg; mount --bind {PLACE}/tests.gpg {KEYRING}; "
        "apt-get -qq purge -y apptainer >&2; "
        f"systemd-run --quiet --unit=test-mirror --working-directory={PLACE} "
        f"python3 -m http.server {PORT}",
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
    """A function that runs the role with packages of Enroot and returns exit code and output."""
    play = tmp_path_factory.mktemp("play") / "play.yml"
    play.write_text(PLAY)

    def run(packages):
        variables = {
            "container_runtime_mirror": mirror.url,
            "container_runtime_enroot_packages": packages,
        }
        done = subprocess.run(
            ["ansible-playbook", play, "-e", repr(variables)],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


def versions(lab, package):
    """Return the installed version of a package, and the version that an upgrade would install."""
    policy = lab.sh("login", f"apt-cache policy {package}")
    return tuple(re.findall(r"^  (?:Installed|Candidate): (\S+)", policy, re.MULTILINE))


def test_the_role_installs_apptainer_from_the_mirror_and_enroot_by_checksum(lab, mirror, role):
    """The first run fails after it configured the mirror; the second run uses the mirror."""
    checksum = lab.sh("login", f"sha256sum {PLACE}/enroot.deb")[:64]
    curl = versions(lab, "curl")[0]

    code, output = role([{"url": f"file://{PLACE}/enroot.deb", "checksum": f"sha256:{'0' * 64}"}])

    assert code != 0
    assert "The checksum for" in output
    assert versions(lab, "apptainer") == (mirror.version, mirror.version)
    assert versions(lab, "curl") == (curl, curl)  # the mirror has 99
    assert versions(lab, "enroot") == ()

    lab.sh("login", "apt-get -qq purge -y apptainer >&2; rm /var/lib/apt/lists/127.0.0.1*")
    code, output = role([{"url": f"file://{PLACE}/enroot.deb", "checksum": f"sha256:{checksum}"}])

    assert code == 0, output
    assert versions(lab, "apptainer") == (mirror.version, mirror.version)
    assert "apptainer version" in lab.sh("login", "apptainer --version")
    assert lab.run("login", "cat", "/usr/share/enroot/from-a-package").stdout == "here\n"

# SPDX-License-Identifier: Apache-2.0
"""Tests of role container_runtime with a package mirror for Apptainer and packages of Enroot.

The lab's inventory uses neither. The tests run the role on the login host. They build a mirror from
the installed Apptainer, remove Apptainer and install it again from the mirror.
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
MIRROR_FOLDER = "/var/tmp/mirror"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SOURCES = "/etc/apt/sources.list.d"
ROLE_PLAY = """\
- hosts: login
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: gridstead.site.container_runtime, tasks_from: validate}
    - ansible.builtin.import_role: {name: gridstead.site.container_runtime, tasks_from: install}
"""

# Builds packages of the installed Apptainer, of a newer curl that apt must not install, and of a
# substitute for Enroot.
BUILD_PACKAGES = r"""
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
    """A package mirror with its version of Apptainer."""

    url: str
    version: str


def sign(text, folder):
    """Sign a text with a new key. Return the signed text, and the public key in base64."""
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
    signed_release = gpg("--clearsign", input=text.encode()).decode()
    key = base64.b64encode(gpg("--export")).decode()
    subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=environment, check=True)
    return signed_release, key


@pytest.fixture(scope="module")
def mirror(lab, tmp_path_factory):
    """Create a mirror on the login host and remove Apptainer from the host."""
    version = lab.sh("login", "dpkg-query -W -f='${Version}' apptainer")
    release = lab.run("login", "bash", "-euc", BUILD_PACKAGES, "bash", MIRROR_FOLDER).stdout
    signed_release, key = sign(release, tmp_path_factory.mktemp("gpg", numbered=True))
    lab.run("login", "tee", f"{MIRROR_FOLDER}/debian/dists/sid/InRelease", input=signed_release)
    lab.sh(
        "login",
        f"mv {SOURCES}/0000lab.list {MIRROR_FOLDER}; "
        f"cp --remove-destination {KEYRING} {MIRROR_FOLDER}/keyring; "
        f"base64 -d >{MIRROR_FOLDER}/tests.gpg; mount --bind {MIRROR_FOLDER}/tests.gpg {KEYRING}; "
        "apt-get -qq purge -y apptainer >&2; "
        f"systemd-run --quiet --unit=test-mirror --working-directory={MIRROR_FOLDER} "
        f"python3 -m http.server {PORT}",
        input=key,
    )
    yield Mirror(url=f"http://127.0.0.1:{PORT}/debian", version=version)
    lab.sh(
        "login",
        f"""systemctl stop test-mirror; umount {KEYRING}; dpkg --purge enroot
        rm -f {SOURCES}/gridstead-apptainer.sources /etc/apt/preferences.d/gridstead-apptainer.pref
        rm -rf /var/cache/gridstead/container_runtime /var/lib/apt/lists/127.0.0.1*
        mv {MIRROR_FOLDER}/0000lab.list {SOURCES}
        dpkg-query -W apptainer || dpkg --install {MIRROR_FOLDER}/debian/pool/apptainer.deb
        rm -r {MIRROR_FOLDER}""",
    )


@pytest.fixture(scope="module")
def run_role(mirror, tmp_path_factory):
    """Return a function that runs the role and returns the exit code and the output.

    The argument of the function is the list of Enroot's packages.
    """
    play = tmp_path_factory.mktemp("play") / "play.yml"
    play.write_text(ROLE_PLAY)

    def run(packages):
        variables = {
            "container_runtime_mirror": mirror.url,
            "container_runtime_enroot_packages": packages,
        }
        result = subprocess.run(
            ["ansible-playbook", play, "-e", repr(variables)],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        return result.returncode, result.stdout

    return run


def installed_and_candidate(lab, package):
    """Return the installed version and the candidate version of a package in apt."""
    # The output contains lines such as "  Installed: 1.4.5" and "  Candidate: 1.4.5".
    policy = lab.sh("login", f"apt-cache policy {package}")
    return tuple(re.findall(r"^  (?:Installed|Candidate): (\S+)", policy, re.MULTILINE))


def test_the_role_installs_apptainer_from_the_mirror_and_enroot_by_checksum(lab, mirror, run_role):
    """The first run configures the mirror and then fails. The second run uses the mirror."""
    checksum = lab.sh("login", f"sha256sum {MIRROR_FOLDER}/enroot.deb")[:64]
    curl_version, _ = installed_and_candidate(lab, "curl")

    exit_code, output = run_role(
        [{"url": f"file://{MIRROR_FOLDER}/enroot.deb", "checksum": f"sha256:{'0' * 64}"}]
    )

    assert exit_code != 0
    assert "The checksum for" in output
    assert installed_and_candidate(lab, "apptainer") == (mirror.version, mirror.version)
    # The mirror has curl 99, which must not become the candidate.
    assert installed_and_candidate(lab, "curl") == (curl_version, curl_version)
    assert installed_and_candidate(lab, "enroot") == ()

    lab.sh("login", "apt-get -qq purge -y apptainer >&2; rm /var/lib/apt/lists/127.0.0.1*")
    exit_code, output = run_role(
        [{"url": f"file://{MIRROR_FOLDER}/enroot.deb", "checksum": f"sha256:{checksum}"}]
    )

    assert exit_code == 0, output
    assert installed_and_candidate(lab, "apptainer") == (mirror.version, mirror.version)
    assert "apptainer version" in lab.sh("login", "apptainer --version")
    assert lab.run("login", "cat", "/usr/share/enroot/from-a-package").stdout == "here\n"

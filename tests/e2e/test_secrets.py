# SPDX-License-Identifier: Apache-2.0
"""The site's secrets are nowhere but in the files that only those read who need them."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from tests.e2e.conftest import CHECKOUT

LINE = 20  # letters that a line of a secret has at least; shorter ones are no secret
PUBLIC = {"ca.crt", "deployment.json"}
# Two roles that render passwords and a key. What they find was changed by hand.
PLAYBOOK = """
- name: Write secrets anew
  hosts: login:db
  gather_subset: [min]
  roles:
    - role: munge
    - {role: sssd, when: "inventory_hostname == 'login'"}
    - {role: slurm, slurm_components: [accounting], when: "inventory_hostname == 'db'"}
"""
CHANGED = (
    ("login", "/etc/munge/munge.key"),
    ("login", "/etc/sssd/sssd.conf"),
    ("db", "/etc/slurm/slurmdbd.conf"),
)
# Files that anybody on the host may read, everybody's command lines, and the journal, for those
# that hold a secret.
SEARCH = """
import json, os, subprocess, sys
from pathlib import Path
secrets = [one.encode() for one in json.load(sys.stdin)]
def readable(top):
    for folder, folders, files in os.walk(top):
        folders[:] = [one for one in folders if os.lstat(os.path.join(folder, one)).st_mode & 0o001]
        for name in files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if status.st_mode & 0o170004 == 0o100004 and status.st_size < 1 << 22:
                yield path
def holds(content):
    return any(one in content for one in secrets)
places = [path for top in ("/etc", "/run", "/tmp", "/var/tmp", "/var/log", "/var/lib", "/opt/gridstead/etc", "/home")
          for path in readable(top)]
places += [str(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
found = []
for place in places:
    try:
        if holds(Path(place).read_bytes()):
            found.append(place)
    except OSError:
        continue  # it is gone
if holds(subprocess.run(["journalctl", "--output=cat", "--no-pager"], check=True, capture_output=True).stdout):
    found.append("the journal")
print(json.dumps({"found": found, "looked at": len(places)}))
"""


def public_half(key):
    known = load_pem_private_key(key.encode(), None).public_key()
    return known.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.fixture(scope="module")
def secrets(lab):
    """Every line of every file in the inventory's folder of secrets that is one."""
    texts = {path: path.read_text() for path in lab.secrets.rglob("*") if path.is_file()}
    known = {path for path in texts if path.name in PUBLIC or path.suffix == ".address"}
    public = [texts[path] for path in known]
    # A key's file ends with its public half.
    public += [public_half(text) for path, text in texts.items() if path.suffix == ".key"]
    files = [text for path, text in texts.items() if path not in known]
    lines = {line.strip() for text in files for line in text.splitlines()}
    found = sorted(line for line in lines if len(line) >= LINE and not line.startswith("-----"))
    found = [line for line in found if not any(line in text for text in public)]
    assert len(found) >= len(files)
    return found


def test_no_secret_is_shown_even_where_a_file_with_one_changes(lab, secrets, tmp_path):
    """As verbose as an operator asks for help with, differences included."""
    playbook = tmp_path / "secrets.yml"
    playbook.write_text(PLAYBOOK)
    for host, path in CHANGED:
        lab.run(host, "sh", "-c", f"echo '# changed' >>{path}")

    argv = ["ansible-playbook", "-vvv", "--diff", str(playbook)]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-3000:]
    assert [one for one in secrets if one in done.stdout + done.stderr] == []
    for host, path in CHANGED:
        assert lab.run(host, "grep", "--count", "# changed", path, check=False).stdout == "0\n"


def test_no_secret_is_in_what_a_whole_run_says(lab, secrets):
    log = lab.folder / "again.log"
    if not log.exists():
        pytest.skip("only tools/test keeps what its second run of site.yml said, with -vvv --diff")
    said = log.read_text()

    assert [one for one in secrets if one in said] == []
    assert said.count("module_args:") > 200


def test_no_secret_lies_where_anybody_on_a_host_may_read_it(lab, secrets):
    with ThreadPoolExecutor() as pool:
        told = pool.map(
            lambda host: lab.run(host, "python3", "-c", SEARCH, input=json.dumps(secrets)).stdout,
            lab.hosts,
        )
        found = {host: json.loads(one) for host, one in zip(lab.hosts, told, strict=True)}

    assert {host: one["found"] for host, one in found.items() if one["found"]} == {}
    assert all(one["looked at"] > 500 for one in found.values())

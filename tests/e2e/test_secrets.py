# SPDX-License-Identifier: Apache-2.0
"""Tests that no output, log or world-readable file of the site contains a secret."""

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

MIN_LENGTH = 20  # in characters; a shorter line of a file is not a secret
PUBLIC_FILES = {"ca.crt", "deployment.json"}
# The roles write passwords and a key. The test changes the files with these secrets before the run,
# so that the roles write the files again.
WRITE_SECRETS_PLAYBOOK = """
- name: Write the secrets again
  hosts: login:db
  gather_subset: [min]
  roles:
    - role: gridstead.site.munge
    - {role: gridstead.site.sssd, when: "inventory_hostname == 'login'"}
    - role: gridstead.site.slurm
      slurm_components: [accounting]
      when: inventory_hostname == 'db'
"""
CHANGED_FILES = (
    ("login", "/etc/munge/munge.key"),
    ("login", "/etc/sssd/sssd.conf"),
    ("db", "/etc/slurm/slurmdbd.conf"),
)
# This program runs on a host. It prints the world-readable files and the command lines that contain
# a secret. It also prints "the journal" if the journal contains a secret.
SEARCH_PROGRAM = """
import json, os, subprocess, sys
from pathlib import Path
secrets = [secret.encode() for secret in json.load(sys.stdin)]
TOPS = ("/etc", "/run", "/tmp", "/var/tmp", "/var/log", "/var/lib", "/opt/gridstead/etc", "/home")
JOURNAL = ["journalctl", "--output=cat", "--no-pager"]
def is_open(path):
    return os.lstat(path).st_mode & 0o001
def readable(top):
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if is_open(os.path.join(folder, name))]
        for name in files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            # a regular file that all users can read, smaller than 4 MiB
            if status.st_mode & 0o170004 == 0o100004 and status.st_size < 1 << 22:
                yield path
def holds(content):
    return any(secret in content for secret in secrets)
places = [path for top in TOPS for path in readable(top)]
places += [str(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
found = []
for place in places:
    try:
        if holds(Path(place).read_bytes()):
            found.append(place)
    except OSError:
        continue  # the file has been removed
if holds(subprocess.run(JOURNAL, check=True, capture_output=True).stdout):
    found.append("the journal")
print(json.dumps({"found": found, "searched": len(places)}))
"""


def public_key_of(key):
    public_key = load_pem_private_key(key.encode(), None).public_key()
    return public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def public_and_secret_texts(folder):
    """Return the public and the secret texts of the files in the inventory's folder of secrets."""
    public_texts, secret_texts = [], []
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        if path.name in PUBLIC_FILES or path.suffix == ".address":
            public_texts.append(path.read_text())
        else:
            secret_texts.append(path.read_text())
        if path.suffix == ".key":  # the file of a private key also contains the public key
            public_texts.append(public_key_of(path.read_text()))
    return public_texts, secret_texts


@pytest.fixture(scope="module")
def secrets(lab):
    """Return the secret lines of all files in the inventory's folder of secrets."""
    public_texts, secret_texts = public_and_secret_texts(lab.secrets)
    lines = set()
    for text in secret_texts:
        lines.update(line.strip() for line in text.splitlines())
    secret_lines = []
    for line in sorted(lines):
        is_public = line.startswith("-----") or any(line in text for text in public_texts)
        if len(line) >= MIN_LENGTH and not is_public:
            secret_lines.append(line)
    # Each file with secrets has at least one secret line, unless the filter above is wrong.
    assert len(secret_lines) >= len(secret_texts)
    return secret_lines


def secrets_in(secrets, text):
    """Return the secrets that a text contains."""
    return [secret for secret in secrets if secret in text]


def test_the_output_of_a_run_that_writes_secrets_contains_no_secret(lab, secrets, tmp_path):
    """The run uses -vvv and --diff. Operators attach such output to support requests."""
    playbook = tmp_path / "secrets.yml"
    playbook.write_text(WRITE_SECRETS_PLAYBOOK)
    for host, path in CHANGED_FILES:
        lab.run(host, "sh", "-c", f"echo '# changed' >>{path}")

    argv = ["ansible-playbook", "-vvv", "--diff", str(playbook)]
    result = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout[-3000:]
    assert secrets_in(secrets, result.stdout + result.stderr) == []
    for host, path in CHANGED_FILES:
        assert lab.run(host, "grep", "--count", "# changed", path, check=False).stdout == "0\n"


def test_the_output_of_site_yml_contains_no_secret(lab, secrets):
    log = lab.folder / "again.log"
    if not log.exists():
        pytest.skip(
            "only tools/test stores the output of a second run of site.yml with -vvv --diff"
        )
    output = log.read_text()

    assert secrets_in(secrets, output) == []
    assert output.count("module_args:") > 200


def test_no_secret_is_in_a_file_that_every_user_can_read(lab, secrets):
    def search(host):
        return lab.run(host, "python3", "-c", SEARCH_PROGRAM, input=json.dumps(secrets)).stdout

    with ThreadPoolExecutor() as pool:
        results = [json.loads(output) for output in pool.map(search, lab.hosts)]

    places = {host: result["found"] for host, result in zip(lab.hosts, results, strict=True)}
    assert places == {host: [] for host in lab.hosts}
    assert all(result["searched"] > 500 for result in results)

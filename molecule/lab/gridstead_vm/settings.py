# SPDX-License-Identifier: Apache-2.0
"""Settings of apt, pip and npm for the guest, read from this machine at run time.

The guest reaches the package registries through QEMU's user network. In this network a program on
this machine's loopback address has address 10.0.2.2.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

HOST_ADDRESS = "10.0.2.2"
LOOPBACK_URL = re.compile(
    r"(://(?:[^@/\s]*@)?)(?:127(?:\.\d+){3}|localhost|\[::1\])(?=[:/\s\"']|$)"
)
VARIABLE_PREFIXES = ("pip_", "uv_", "npm_config_")
VARIABLE_NAMES = {
    "all_proxy", "curl_ca_bundle", "http_proxy", "https_proxy", "no_proxy", "node_extra_ca_certs",
    "requests_ca_bundle", "ssl_cert_dir", "ssl_cert_file",
}  # fmt: skip
# Options of pip that describe how to reach an index. Other options name files of this machine.
PIP_OPTIONS = {
    "cert", "extra-index-url", "index-url", "no-index", "proxy", "retries", "timeout",
    "trusted-host",
}  # fmt: skip
PIP_LINE = re.compile(r"(?:global|install|download|user|site)\.([\w-]+)='(.*)'")
PROXY = re.compile(r'Acquire::(https?)::Proxy "(\S+)";', re.IGNORECASE)
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


def for_guest(text: str) -> str:
    """Return the text with the guest's address of this machine in URLs on its loopback address."""
    return LOOPBACK_URL.sub(rf"\g<1>{HOST_ADDRESS}", text)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that configure pip, uv, npm, proxies and CA files.

    Leaves out variables whose value names a file of this machine, except the CA bundle, which the
    guest has at the same path. Leaves out values of several lines.
    """
    settings = {}
    for name, value in variables.items():
        is_setting = name.lower() in VARIABLE_NAMES or name.lower().startswith(VARIABLE_PREFIXES)
        is_path = value.startswith(("/", "file:"))
        is_in_etc_ssl = value.startswith("/etc/ssl/")
        has_one_line = "\n" not in value
        if is_setting and has_one_line and (is_in_etc_ssl or not is_path):
            settings[name] = value
    return settings


def environment_file(variables: Mapping[str, str]) -> str:
    """Return the text of /etc/environment of the guest."""
    return "".join(f"{name}={for_guest(value)}\n" for name, value in sorted(variables.items()))


def pip_configuration(listing: str) -> str:
    """Return the text of pip.conf of the guest.

    Args:
        listing: The output of ``pip config list`` on this machine.
    """
    lines = ["[global]"]
    for line in listing.splitlines():
        match = PIP_LINE.fullmatch(line.strip())
        if match is None or match[1] not in PIP_OPTIONS:
            continue
        urls = [word for word in match[2].replace("\\n", " ").split() if "file:" not in word]
        if urls:
            lines.append(f"{match[1]} = {' '.join(urls)}")
    return "\n".join(lines) + "\n"


def proxies(apt_configuration: str) -> dict[str, str]:
    """Return the proxies of apt as environment variables, for programs such as debootstrap."""
    variables = {}
    for scheme, url in PROXY.findall(apt_configuration):
        if url.upper() != "DIRECT":
            variables[f"{scheme.lower()}_proxy"] = url
    return variables


def npm_files(user_file: str, machine_file: str) -> list[tuple[Path, Path]]:
    """Return the settings files of npm that exist, as pairs (file here, file of the guest).

    Args:
        user_file: The path of the user's file, as ``npm config get userconfig`` prints it.
        machine_file: The path of the machine's file, as ``npm config get globalconfig`` prints it.
    """
    pairs = []
    for source, target in ((user_file, "/root/.npmrc"), (machine_file, "/etc/npmrc")):
        if Path(source).is_file() and os.access(source, os.R_OK):
            pairs.append((Path(source), Path(target)))
    return pairs

# SPDX-License-Identifier: Apache-2.0
"""The settings of the machine's apt that the image gets."""

import pytest

from gridstead_lab import apt_settings

# Lines that apt-config dump 2.6.1 prints on a machine with a proxy.
DUMP = """\
APT "";
APT::Architecture "amd64";
Acquire "";
Acquire::AllowInsecureRepositories "0";
Acquire::IndexTargets::deb::Contents-deb::MetaKey "$(COMPONENT)/Contents-$(ARCHITECTURE)";
Acquire::GzipIndexes "true";
Acquire::Languages "";
Acquire::Languages:: "none";
Acquire::CompressionTypes::xz "xz";
Acquire::http "";
Acquire::http::Proxy "http://proxy.example:3142";
Acquire::http::Proxy::mirror.example "DIRECT";
Acquire::https::CaInfo "/etc/ssl/site.pem";
Acquire::Retries "3";
DPkg::Pre-Install-Pkgs:: "/usr/sbin/dpkg-preconfigure --apt";
"""
URIS = ("http://mirror.example/debian", "https://mirror.example/x", "http://mirror.example/debian")


def settings(dump, answer="", commands=None):
    def run(argv):
        commands.append(argv)
        return answer

    return apt_settings.acquire_settings(dump, URIS, run).splitlines()


def test_a_proxy_in_any_configuration_file_reaches_the_image():
    assert settings(DUMP) == [
        'Acquire::AllowInsecureRepositories "0";',
        'Acquire::http::Proxy "http://proxy.example:3142";',
        'Acquire::http::Proxy::mirror.example "DIRECT";',
        'Acquire::https::CaInfo "/etc/ssl/site.pem";',
        'Acquire::Retries "3";',
    ]


@pytest.mark.parametrize("name", ["Proxy-Auto-Detect", "ProxyAutoDetect"])
def test_a_program_that_detects_proxies_is_replaced_by_its_answer(name):
    """The image does not contain the program."""
    commands = []

    lines = settings(
        f'Acquire::http::{name} "/usr/bin/detect";\n', "http://p.example:1\n", commands
    )

    assert lines == ['Acquire::http::Proxy::mirror.example "http://p.example:1";']
    assert commands[0] == ["/usr/bin/detect", "http://mirror.example/debian"]


def test_a_program_that_detects_no_proxy_adds_no_setting():
    assert settings('Acquire::https::Proxy-Auto-Detect "/x";\n', "\n", []) == []

# SPDX-License-Identifier: Apache-2.0
"""The settings of this machine that the guest gets."""

import pytest

from gridstead_vm import settings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://127.0.0.1:3128", "http://10.0.2.2:3128"),
        ("https://user:word@localhost:8080/simple", "https://user:word@10.0.2.2:8080/simple"),
        ("http://[::1]/npm/", "http://10.0.2.2/npm/"),
        ('Acquire::http::Proxy "http://127.8.9.1";', 'Acquire::http::Proxy "http://10.0.2.2";'),
        ("http://localhost.example/", "http://localhost.example/"),
        ("http://127.0.0.100.example:80", "http://127.0.0.100.example:80"),
        ("http://mirror.example/127.0.0.1/", "http://mirror.example/127.0.0.1/"),
    ],
)
def test_the_guest_reaches_a_proxy_on_loopback_through_the_user_network(text, expected):
    assert settings.for_guest(text) == expected


def test_the_guest_gets_the_variables_of_pip_npm_proxies_and_certificates():
    variables = {
        "HTTPS_PROXY": "http://localhost:1", "PIP_INDEX_URL": "https://index.example/simple",
        "npm_config_registry": "https://npm.example", "SSL_CERT_FILE": "/etc/ssl/certs/x.crt",
    }  # fmt: skip

    assert settings.environment(variables) == variables


def test_the_guest_gets_no_variable_that_names_a_file_of_this_machine():
    variables = {
        "PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "PIP_FIND_LINKS": "/opt/wheels",
        "PIP_EXTRA_INDEX_URL": "file:///opt/simple", "PIP_PROXY": "a\nb",
    }  # fmt: skip

    assert settings.environment(variables) == {}


def test_the_environment_file_of_the_guest_has_its_address_of_this_machine():
    text = settings.environment_file({"https_proxy": "http://127.0.0.1:1", "PIP_TIMEOUT": "5"})

    assert text == "PIP_TIMEOUT=5\nhttps_proxy=http://10.0.2.2:1\n"


def test_pip_of_the_guest_uses_the_index_and_no_file_of_this_machine():
    listing = """\
:env:.index-url='https://ignored.example'
global.cert='/etc/ssl/certs/ca-certificates.crt'
global.constraint='/etc/constraints.txt'
global.extra-index-url='file:///opt/simple https://more.example/simple'
global.find-links='/opt/wheels'
global.index-url='https://index.example/simple'
"""

    assert settings.pip_configuration(listing).splitlines() == [
        "[global]",
        "cert = /etc/ssl/certs/ca-certificates.crt",
        "extra-index-url = https://more.example/simple",
        "index-url = https://index.example/simple",
    ]


def test_debootstrap_uses_the_proxies_of_apt():
    configuration = (
        'Acquire::http::Proxy "http://proxy.example:3142";\n'
        'Acquire::https::Proxy "DIRECT";\n'
        'Acquire::http::Proxy::mirror.example "http://other.example";\n'
    )

    assert settings.proxies(configuration) == {"http_proxy": "http://proxy.example:3142"}


def test_only_existing_settings_files_of_npm_are_copied(tmp_path):
    user = tmp_path / "npmrc"
    user.write_text("registry=https://npm.example\n")

    files = settings.npm_files(str(user), str(tmp_path / "absent"))

    assert [(str(source), str(target)) for source, target in files] == [(str(user), "/root/.npmrc")]

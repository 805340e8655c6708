# SPDX-License-Identifier: Apache-2.0
"""Access to the shared storage in the files of the role for the example site."""

from ipaddress import ip_network

import pytest
import yaml
from ansible.template import trust_as_template
from tests.roles.catalogue import Role

ROLE = Role("shared_storage")
SERVER, CLIENT = "infra", "compute1"
HOSTS = ("controller", "controller2", SERVER, CLIENT)
MOOSEFS = {"shared_storage_backend": "moosefs"}
ADDRESSES = {
    "192.0.2.10",
    "192.0.2.12",
    "192.0.2.13",
    "192.0.2.15",
    "192.0.2.21",
    "192.0.2.22",
    "192.0.2.31",
}


def lines(render, template, host, **variables):
    text = render(ROLE, ROLE.path / "templates" / template, host, **(MOOSEFS | variables))
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_only_clients_have_an_export(render):
    exports = [line.split() for line in lines(render, "etc/mfs/mfsexports.cfg.j2", SERVER)]

    assert sorted(address for address, *_ in exports) == sorted(ADDRESSES)
    assert {path for _, path, _ in exports} == {"/"}


def test_root_is_not_mapped_only_on_the_host_of_user_directories(render):
    exports = {
        line.split()[0]: line.split()[2].split(",")
        for line in lines(render, "etc/mfs/mfsexports.cfg.j2", SERVER)
    }

    assert {address for address, options in exports.items() if "maproot=0:0" in options} == {
        "192.0.2.13"
    }
    assert {address for address, options in exports.items() if "admin" in options} == {"192.0.2.13"}
    assert {
        address for address, options in exports.items() if "maproot=nobody" in options
    } == ADDRESSES - {"192.0.2.13"}


def test_root_of_the_controllers_is_not_mapped_on_their_state(render):
    state = {"slurm_state_directory": "/srv/shared/slurm"}
    entries = lines(render, "etc/mfs/mfsexports.cfg.j2", SERVER, **state)
    unit = "etc/systemd/system/gridstead-shared-storage.service.j2"
    waits = {
        host: "slurmctld.service" in " ".join(lines(render, unit, host, **state)) for host in HOSTS
    }

    assert {entry.split()[0] for entry in entries if "maproot=0:0" in entry} == {
        "192.0.2.10",
        "192.0.2.13",
        "192.0.2.15",
    }
    assert waits == {"controller": True, "controller2": True, SERVER: False, CLIENT: False}


def test_exports_need_a_password_and_admin_exports_another(render):
    exports = {line.split()[0]: line for line in lines(render, "etc/mfs/mfsexports.cfg.j2", SERVER)}
    passwords = {address: line.partition("password=")[2] for address, line in exports.items()}

    assert all(len(password) == 40 for password in passwords.values())
    assert len(set(passwords.values())) == 2
    assert list(passwords.values()).count(passwords["192.0.2.13"]) == 1


def test_a_client_uses_the_password_of_its_export(render):
    exports = {line.split()[0]: line for line in lines(render, "etc/mfs/mfsexports.cfg.j2", SERVER)}

    for host, address in ((SERVER, "192.0.2.13"), (CLIENT, "192.0.2.21")):
        settings = dict(
            line.split("=")
            for line in lines(render, "etc/gridstead/storage.cfg.j2", host)
            if "=" in line
        )
        assert settings["mfspassword"] == exports[address].partition("password=")[2]


def test_only_root_and_the_servers_daemons_may_connect_to_the_storage(render):
    client, server = (
        lines(render, "etc/gridstead/storage.nft.j2", host) for host in (CLIENT, SERVER)
    )

    assert "tcp dport 9419-9422 meta skuid != root counter reject with tcp reset" in client
    assert "tcp dport 9419-9422 meta skuid != { root, mfs } counter reject with tcp reset" in server


def test_the_firewall_closes_the_port_of_the_mounts_relay(render):
    settings = lines(render, "etc/gridstead/storage.cfg.j2", CLIENT)
    rules = lines(render, "etc/gridstead/storage.nft.j2", CLIENT)

    (relay,) = [line.partition("=")[2] for line in settings if line.startswith("mfsproxy=")]
    assert f"ip daddr {relay} meta skuid != root counter reject" in rules


def test_the_server_accepts_connections_from_clients_only(render):
    (rule,) = [
        line for line in lines(render, "etc/gridstead/storage.nft.j2", SERVER) if "ip saddr" in line
    ]

    assert set(rule.partition("{ ")[2].partition(" }")[0].split(", ")) == ADDRESSES


def test_only_the_admin_creates_the_top_directories(render):
    template = "etc/systemd/system/gridstead-shared-storage.service.j2"
    made = {
        host: [line for line in lines(render, template, host) if "install --directory" in line]
        for host in (SERVER, CLIENT)
    }

    assert len(made[SERVER]) == 5
    assert made[CLIENT] == []


@pytest.mark.parametrize(("backend", "made"), [("moosefs", 1), ("nfs", 1), ("external", 0)])
def test_the_root_of_an_external_file_system_keeps_its_mode(render, backend, made):
    """Sites use modes such as 1777 and 2775."""
    entries = {"shared_storage_backend": backend, "shared_storage_external": EXTERNAL}
    unit = lines(
        render, "etc/systemd/system/gridstead-shared-storage.service.j2", SERVER, **entries
    )

    assert unit.count("ExecStartPost=/usr/bin/install --directory --mode=0755 /srv/shared") == made
    assert len([line for line in unit if "install --directory" in line]) == 4 + made


def test_firewall_rules_are_loaded_before_any_mount(render):
    unit = lines(render, "etc/systemd/system/gridstead-shared-storage.service.j2", CLIENT)

    assert "Requires=gridstead-storage-firewall.service" in unit
    assert any(
        line.startswith("After=") and "gridstead-storage-firewall.service" in line for line in unit
    )


EXTERNAL = {
    "source": "beegfs_nodev",
    "type": "beegfs",
    "options": "cfgFile=/etc/beegfs/client.conf",
}


def mounts(render, host, **variables):
    unit = lines(
        render, "etc/systemd/system/gridstead-shared-storage.service.j2", host, **variables
    )
    return [line.partition("=")[2] for line in unit if line.startswith("ExecStart=")]


def test_nfs_exports_map_root_except_on_the_host_of_directories(render):
    entries = lines(
        render, "etc/exports.d/gridstead.exports.j2", SERVER, shared_storage_backend="nfs"
    )
    exports = {
        line.split()[1].partition("(")[0]: line.partition("(")[2].strip(")").split(",")
        for line in entries
    }

    assert set(exports) == ADDRESSES
    assert {line.split()[0] for line in entries} == {"/srv/nfs"}
    assert all({"secure", "sync", "fsid=0"} <= set(options) for options in exports.values())
    assert {address for address, options in exports.items() if "no_root_squash" in options} == {
        "192.0.2.13"
    }
    assert {
        address for address, options in exports.items() if "root_squash" in options
    } == ADDRESSES - {"192.0.2.13"}


def test_nfs_is_mounted_by_clients_and_bound_by_its_server(render):
    assert mounts(render, CLIENT, shared_storage_backend="nfs") == [
        "/usr/bin/mount -t nfs4 -o vers=4.2,hard,nosuid,nodev 192.0.2.13:/ /srv/shared"
    ]
    assert mounts(render, SERVER, shared_storage_backend="nfs") == [
        "/usr/bin/mount --bind /srv/nfs /srv/shared"
    ]


def test_an_external_file_system_is_mounted_with_its_options(render):
    entries = {"shared_storage_backend": "external", "shared_storage_external": EXTERNAL}

    assert mounts(render, CLIENT, **entries) == [
        "/usr/bin/mount -t beegfs -o cfgFile=/etc/beegfs/client.conf beegfs_nodev /srv/shared"
    ]
    assert mounts(
        render,
        CLIENT,
        **(entries | {"shared_storage_external": {"source": "/srv/a", "type": "none"}}),
    ) == ["/usr/bin/mount -t none -o defaults /srv/a /srv/shared"]


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ("name=grid,secret=AQBhopefullyNobodySees==", "secret"),
        ("PASSWORD=hunter2,vers=3.0", "PASSWORD"),
        ("ro,pass=hunter2,password2=hunter3", "pass, password2"),
        ("name=grid,secretfile=/etc/ceph/grid.secret", None),
        ("credentials=/etc/site.smb,passkey_file=/etc/x", None),
        ("secretive", None),
        (None, None),
    ],
)
def test_a_secret_mount_option_is_refused_by_name_and_not_shown(options, refused, site):
    """Every user can read the unit and the arguments of mount(8)."""
    external = {"source": "a:/", "type": "ceph", "options": options}
    templar = site.templar(
        ROLE, CLIENT, shared_storage_backend="external", shared_storage_external=external
    )
    tasks = yaml.safe_load((ROLE.path / "tasks/validate.yml").read_text())
    (task,) = (task for task in tasks if "contain no secret" in task["name"])

    holds = templar.evaluate_conditional(trust_as_template(task["ansible.builtin.assert"]["that"]))
    entries = templar.template(trust_as_template(task["ansible.builtin.assert"]["fail_msg"]))

    assert holds is (refused is None)
    if refused:
        assert f"has {refused}," in entries
        assert "hunter" not in entries
        assert "AQB" not in entries


def test_a_teardown_removes_only_data_of_its_own_back_end(site):
    def data(backend):
        templar = site.templar(ROLE, SERVER, shared_storage_backend=backend)
        return templar.template(templar.available_variables["__shared_storage_footprint"])["data"]

    assert data("nfs") == ["/srv/nfs"]
    assert data("external") == []
    assert "/srv/nfs" not in data("moosefs")
    assert {"/srv/moosefs", "/var/lib/mfs/metadata.mfs"} <= set(data("moosefs"))


def test_nfs_is_the_back_end_of_the_role_and_of_the_example(site):
    assert ROLE.defaults["shared_storage_backend"] == "nfs"
    assert site.templar(ROLE, SERVER).available_variables["shared_storage_backend"] == "nfs"


def test_a_storage_host_accepts_nfs_from_its_clients_only(render):
    base = Role("base")
    rules = render(base, base.path / "templates/etc/gridstead/firewall.nft.j2", SERVER).splitlines()

    (rule,) = [line for line in rules if "2049" in line]

    entries = rule.partition("{ ")[2].partition(" }")[0].split(", ")
    assert {str(item) for network in entries for item in ip_network(network)} == ADDRESSES

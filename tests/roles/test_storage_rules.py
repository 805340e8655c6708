# SPDX-License-Identifier: Apache-2.0
"""Role shared_storage on the example site: exports, firewall rules and mounts."""

from ipaddress import ip_network

import pytest
from ansible.template import trust_as_template
from tests.roles.catalogue import Role
from tests.roles.content import lines_with, values_of
from tests.yaml_files import read_yaml

ROLE = Role("shared_storage")
SERVER, CLIENT = "infra", "compute1"
HOSTS = ("controller", "controller2", SERVER, CLIENT)
MOOSEFS = {"shared_storage_backend": "moosefs"}
SERVER_ADDRESS = "192.0.2.13"
# The addresses of all clients. The server is a client too.
CLIENT_ADDRESSES = {
    "192.0.2.10",
    "192.0.2.12",
    SERVER_ADDRESS,
    "192.0.2.15",
    "192.0.2.21",
    "192.0.2.22",
    "192.0.2.31",
}
EXTERNAL = {
    "source": "beegfs_nodev",
    "type": "beegfs",
    "options": "cfgFile=/etc/beegfs/client.conf",
}
EXPORTS = "etc/mfs/mfsexports.cfg.j2"
MOUNT_UNIT = "etc/systemd/system/gridstead-shared-storage.service.j2"
MOUNT_SETTINGS = "etc/gridstead/storage.cfg.j2"
FIREWALL_RULES = "etc/gridstead/storage.nft.j2"


def lines(render, template, host, **variables):
    """Return the lines of a rendered template without comments.

    The back end is MooseFS, unless ``variables`` select another.
    """
    text = render(ROLE, ROLE.path / "templates" / template, host, **(MOOSEFS | variables))
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def moosefs_exports(render, **variables):
    """Return the options of each export, by the address of the client."""
    options_by_address = {}
    for line in lines(render, EXPORTS, SERVER, **variables):
        address, path, options = line.split()
        assert path == "/"
        assert address not in options_by_address
        options_by_address[address] = options.split(",")
    return options_by_address


def addresses_with(option, options_by_address):
    """Return the addresses of the clients whose export has an option."""
    return {address for address, options in options_by_address.items() if option in options}


def test_only_clients_have_an_export(render):
    assert moosefs_exports(render).keys() == CLIENT_ADDRESSES


def test_only_the_host_of_user_directories_has_an_export_without_root_mapping(render):
    exports = moosefs_exports(render)

    assert addresses_with("maproot=0:0", exports) == {SERVER_ADDRESS}
    assert addresses_with("admin", exports) == {SERVER_ADDRESS}
    assert addresses_with("maproot=nobody", exports) == CLIENT_ADDRESSES - {SERVER_ADDRESS}


def test_exports_to_controllers_with_shared_state_do_not_map_root(render):
    state = {"slurm_state_directory": "/srv/shared/slurm"}

    exports = moosefs_exports(render, **state)

    assert addresses_with("maproot=0:0", exports) == {"192.0.2.10", SERVER_ADDRESS, "192.0.2.15"}


def test_slurmctld_waits_for_the_mount_that_contains_its_state(render):
    state = {"slurm_state_directory": "/srv/shared/slurm"}

    for host in HOSTS:
        unit = " ".join(lines(render, MOUNT_UNIT, host, **state))
        is_controller = host.startswith("controller")
        assert ("slurmctld.service" in unit) == is_controller


def test_the_password_of_the_admin_export_differs_from_that_of_all_clients(render):
    passwords = passwords_of_exports(render)

    assert set(map(len, passwords.values())) == {40}
    admin_password = passwords.pop(SERVER_ADDRESS)
    (client_password,) = set(passwords.values())
    assert client_password != admin_password


def passwords_of_exports(render):
    """Return the password of each export, by the address of the client."""
    passwords = {}
    for address, options in moosefs_exports(render).items():
        (password,) = values_of("password", options)
        passwords[address] = password
    return passwords


def test_a_client_uses_the_password_of_its_export(render):
    passwords = passwords_of_exports(render)

    for host, address in ((SERVER, SERVER_ADDRESS), (CLIENT, "192.0.2.21")):
        settings = lines(render, MOUNT_SETTINGS, host)
        assert f"mfspassword={passwords[address]}" in settings


def test_only_root_and_the_servers_daemons_may_connect_to_the_storage(render):
    client_rules = lines(render, FIREWALL_RULES, CLIENT)
    server_rules = lines(render, FIREWALL_RULES, SERVER)

    prefix, suffix = "tcp dport 9419-9422 meta skuid !=", "counter reject with tcp reset"
    assert f"{prefix} root {suffix}" in client_rules
    assert f"{prefix} {{ root, mfs }} {suffix}" in server_rules


def test_only_root_may_connect_to_the_proxy_of_the_mount(render):
    settings = lines(render, MOUNT_SETTINGS, CLIENT)
    rules = lines(render, FIREWALL_RULES, CLIENT)

    (proxy,) = values_of("mfsproxy", settings)
    assert f"ip daddr {proxy} meta skuid != root counter reject" in rules


def test_the_server_accepts_connections_only_from_clients(render):
    rules = lines(render, FIREWALL_RULES, SERVER)

    (rule,) = lines_with("ip saddr", rules)
    assert set(items_of_set(rule)) == CLIENT_ADDRESSES


def items_of_set(rule):
    """Return the items of the first set of an nftables rule."""
    return rule.partition("{ ")[2].partition(" }")[0].split(", ")


def created_directories(unit):
    """Return the lines of the mount unit that create directories."""
    return lines_with("install --directory", unit)


def test_the_top_directories_are_created_by_the_server_and_by_no_client(render):
    # The mount point and four directories below it.
    assert len(created_directories(lines(render, MOUNT_UNIT, SERVER))) == 5
    assert created_directories(lines(render, MOUNT_UNIT, CLIENT)) == []


@pytest.mark.parametrize(("backend", "count"), [("moosefs", 1), ("nfs", 1), ("external", 0)])
def test_the_root_of_an_external_file_system_keeps_its_mode(render, backend, count):
    """The root of an external file system may have a mode such as 1777 or 2775.

    The unit creates four directories below the root with every back end.
    """
    variables = {"shared_storage_backend": backend, "shared_storage_external": EXTERNAL}

    unit = lines(render, MOUNT_UNIT, SERVER, **variables)

    assert unit.count("ExecStartPost=/usr/bin/install --directory --mode=0755 /srv/shared") == count
    assert len(created_directories(unit)) == 4 + count


def test_firewall_rules_are_loaded_before_any_mount(render):
    unit = lines(render, MOUNT_UNIT, CLIENT)

    assert "Requires=gridstead-storage-firewall.service" in unit
    (after,) = values_of("After", unit)
    assert "gridstead-storage-firewall.service" in after


def mount_commands(render, host, **variables):
    """Return the commands of the mount unit that mount the file system."""
    unit = lines(render, MOUNT_UNIT, host, **variables)
    return values_of("ExecStart", unit)


def test_nfs_exports_map_root_except_on_the_host_of_user_directories(render):
    template = "etc/exports.d/gridstead.exports.j2"

    exports = {}
    for line in lines(render, template, SERVER, shared_storage_backend="nfs"):
        path, client = line.split()
        assert path == "/srv/nfs"
        address, _, options = client.strip(")").partition("(")
        exports[address] = options.split(",")

    assert exports.keys() == CLIENT_ADDRESSES
    for option in ("secure", "sync", "fsid=0"):
        assert addresses_with(option, exports) == CLIENT_ADDRESSES
    assert addresses_with("no_root_squash", exports) == {SERVER_ADDRESS}
    assert addresses_with("root_squash", exports) == CLIENT_ADDRESSES - {SERVER_ADDRESS}


def test_clients_mount_nfs_and_the_server_binds_its_folder(render):
    assert mount_commands(render, CLIENT, shared_storage_backend="nfs") == [
        "/usr/bin/mount -t nfs4 -o vers=4.2,hard,nosuid,nodev 192.0.2.13:/ /srv/shared"
    ]
    assert mount_commands(render, SERVER, shared_storage_backend="nfs") == [
        "/usr/bin/mount --bind /srv/nfs /srv/shared"
    ]


def test_an_external_file_system_is_mounted_with_its_options(render):
    beegfs = {"shared_storage_backend": "external", "shared_storage_external": EXTERNAL}
    without_options = beegfs | {"shared_storage_external": {"source": "/srv/a", "type": "none"}}

    assert mount_commands(render, CLIENT, **beegfs) == [
        "/usr/bin/mount -t beegfs -o cfgFile=/etc/beegfs/client.conf beegfs_nodev /srv/shared"
    ]
    assert mount_commands(render, CLIENT, **without_options) == [
        "/usr/bin/mount -t none -o defaults /srv/a /srv/shared"
    ]


@pytest.mark.parametrize(
    ("options", "refused_names"),
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
def test_the_refusal_of_a_secret_mount_option_hides_its_value(options, refused_names, site):
    """The option is refused because all users can read the unit and the arguments of mount(8)."""
    external = {"source": "a:/", "type": "ceph", "options": options}
    templar = site.templar(
        ROLE, CLIENT, shared_storage_backend="external", shared_storage_external=external
    )
    tasks = read_yaml(ROLE.path / "tasks/validate.yml")
    (task,) = (task for task in tasks if "contain no secret" in task["name"])

    assertion = task["ansible.builtin.assert"]
    is_accepted = templar.evaluate_conditional(trust_as_template(assertion["that"]))
    message = templar.template(trust_as_template(assertion["fail_msg"]))

    assert is_accepted is (refused_names is None)
    if refused_names:
        assert f"contains {refused_names}," in message
        assert "hunter" not in message
        assert "AQB" not in message


def test_a_teardown_removes_only_data_of_the_configured_back_end(site):
    def data(backend):
        templar = site.templar(ROLE, SERVER, shared_storage_backend=backend)
        return templar.template(templar.available_variables["__shared_storage_footprint"])["data"]

    assert data("nfs") == ["/srv/nfs"]
    assert data("external") == []
    assert "/srv/nfs" not in data("moosefs")
    assert {"/srv/moosefs", "/var/lib/mfs/metadata.mfs"} <= set(data("moosefs"))


def test_nfs_is_the_back_end_by_default_and_in_the_example(site):
    assert ROLE.defaults["shared_storage_backend"] == "nfs"
    assert site.templar(ROLE, SERVER).available_variables["shared_storage_backend"] == "nfs"


def test_a_storage_host_accepts_nfs_only_from_its_clients(render):
    base = Role("base")
    rules = render(base, base.path / "templates/etc/gridstead/firewall.nft.j2", SERVER).splitlines()

    (rule,) = lines_with("2049", rules)  # the port of NFS
    addresses = set()
    for network in items_of_set(rule):
        addresses |= {str(address) for address in ip_network(network)}
    assert addresses == CLIENT_ADDRESSES

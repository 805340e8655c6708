# SPDX-License-Identifier: Apache-2.0
"""The firewall rules that role base makes from the table of flows."""

import re
import subprocess

import pytest
import yaml
from ansible.errors import AnsibleError, AnsibleFilterError
from ansible_collections.gridstead.site.plugins.filter import flows
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check.settings import (
    FIXED_PORTS,
)
from tests.roles import flows_page
from tests.roles.catalogue import ROOT, Role
from tests.roles.conftest import trust_templates

ROLE = Role("base")
TEMPLATE = ROLE.path / "templates/etc/gridstead/firewall.nft.j2"

HOSTS = [
    {"name": "ash", "address": "192.0.2.1"},
    {"name": "birch", "address": "192.0.2.2"},
    {"name": "cedar", "address": "192.0.2.3"},
]
GROUPS = {"gateway": ["ash"], "nodes": ["birch", "cedar"], "nobody": []}
FLOW = {"what": "it", "to": ["gateway"], "from": ["nodes"], "tcp": [443]}


def rules(host="ash", networks=None, **changes):
    """Return the firewall rules of a host for FLOW with these changes."""
    return flows.input_rules([FLOW | changes], host, GROUPS, HOSTS, networks)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"to": ["gatway"]}, '"gatway" is not a group'),
        ({"to": []}, "to must name a group"),
        ({"from": ["node"]}, '"node" is not a group, an address'),
        ({"from": ["192.0.2.1/24"]}, "a network or anyone"),
        ({"from": ["anyone", "node"]}, '"node" is not a group, an address'),
        ({"from": "nodes"}, "from must be a list"),
        ({"tcp": [0]}, "is not a port from 1 to 65535"),
        ({"udp": ["2000-1000"]}, "is not a port from 1 to 65535"),
        ({"tcp": ["https"]}, '"https" is not a port'),
        ({"tcp": [True]}, '"True" is not a port'),
        ({"what": 'a "quote'}, "what must have 1 to 100"),
        ({"sctp": [1]}, "unknown key sctp"),
        ({"plain": " "}, "plain must explain why"),
    ],
)
def test_an_invalid_flow_is_refused_on_every_host(changes, message):
    with pytest.raises(AnsibleFilterError, match=message):
        rules(host="cedar", **changes)


def test_a_flow_opens_its_ports_on_its_targets_for_its_sources():
    assert rules(tcp=[443, "8000-8010"], udp=[53]) == [
        'ip saddr { 192.0.2.2/31 } tcp dport { 443, 8000-8010 } accept comment "it"',
        'ip saddr { 192.0.2.2/31 } udp dport { 53 } accept comment "it"',
    ]
    assert rules(host="birch") == []


def test_a_flow_from_anyone_has_no_source_address():
    assert rules(**{"from": ["nodes", "anyone"]}) == ['tcp dport { 443 } accept comment "it"']


def test_a_flow_from_a_group_without_hosts_opens_nothing():
    assert rules(**{"from": ["nobody"]}) == []


def test_each_address_family_has_one_rule_without_duplicates():
    assert rules(**{"from": ["nodes", "192.0.2.0/24", "2001:db8::/64", "2001:db8::1"]}) == [
        'ip saddr { 192.0.2.0/24 } tcp dport { 443 } accept comment "it"',
        'ip6 saddr { 2001:db8::/64 } tcp dport { 443 } accept comment "it"',
    ]


def test_addresses_of_a_whole_network_are_collapsed():
    names = [f"node{number}" for number in range(63, 128)]
    hosts = [{"name": name, "address": name.replace("node", "192.0.2.")} for name in names]
    groups = GROUPS | {"nodes": names}

    (rule,) = flows.input_rules([FLOW], "ash", groups, hosts)

    assert rule == 'ip saddr { 192.0.2.63, 192.0.2.64/26 } tcp dport { 443 } accept comment "it"'


def test_a_host_does_not_resolve_sources_of_other_hosts_flows(monkeypatch):
    """On large sites, the resolution takes seconds for each host."""
    monkeypatch.delattr(flows, "source_networks")

    assert rules(host="cedar") == []


def test_a_new_host_in_a_network_of_its_group_changes_no_rule():
    networks = {"nodes": ["192.0.2.0/28"]}
    before = rules(networks=networks)

    after = flows.input_rules([FLOW], "ash", GROUPS | {"nodes": ["birch"]}, HOSTS, networks)

    assert before == ['ip saddr { 192.0.2.0/28 } tcp dport { 443 } accept comment "it"']
    assert after == before


def test_nft_accepts_the_rules_of_every_example_host(render, site, tmp_path):
    """The rules of all hosts are loaded one after another in a private network namespace.

    Each file replaces the rules of the previous file. At the end, two chains have policy drop:
    input and forward of the last host.
    """
    for host in site.hosts_of(ROLE):
        (tmp_path / host).write_text(render(ROLE, TEMPLATE, host))
    script = """
        for host in *; do
            nft --check --file $host && nft --file $host || exit
        done
        nft list ruleset
    """

    result = run_in_namespace(script, tmp_path)

    assert result.stdout.count("policy drop") == 2


def run_in_namespace(script, folder):
    """Run a shell script in a folder and in a private network namespace."""
    argv = ["unshare", "--map-root-user", "--net", "sh", "-c", script]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True)


def unit_commands(unit, setting):
    """Return the commands of a unit's settings, joined to one shell command."""
    return " && ".join(re.findall(rf"^{setting}.*?=(.*)$", unit, re.MULTILINE))


@pytest.mark.parametrize(
    ("addition", "is_valid"), [("chain output { accept; }", True), ("no rules", False)]
)
def test_the_unit_records_new_rules_only_if_they_are_loaded(render, tmp_path, addition, is_valid):
    """The commands of the unit load the old rules and then reload the new rules.

    The test replaces the unit's folders by a temporary folder.
    """
    units = ROLE.path / "templates/etc/systemd/system"
    unit = render(ROLE, units / "gridstead-firewall.service.j2", "db")
    old_rules = render(ROLE, TEMPLATE, "db")
    new_rules = old_rules.replace("chain forward {", f"{addition}\n  chain forward {{")
    (tmp_path / "firewall.nft").write_text(old_rules)
    (tmp_path / "new").write_text(new_rules)
    start = unit_commands(unit, "ExecStart")
    reload = unit_commands(unit, "ExecReload")
    script = f"{start} && cp new firewall.nft && {reload}; nft list table inet gridstead"
    for folder in ("/run/gridstead-firewall", "/etc/gridstead"):
        script = script.replace(folder, str(tmp_path))

    result = run_in_namespace(script, tmp_path)

    assert ("chain output" in result.stdout) is is_valid
    assert (tmp_path / "loaded.nft").read_text() == (new_rules if is_valid else old_rules)


def test_without_a_firewall_there_are_no_rules_and_no_flow_is_read(site):
    def files(**variables):
        """Return the files that the role writes, and the files that it removes."""
        templar = site.templar(ROLE, "db", base_flows=[FLOW | {"to": ["nowhere"]}], **variables)
        templar.available_variables |= {"ansible_search_path": [str(ROLE.path)]}
        written_files = templar.template(trust_templates("{{ __base_files }}"))
        removed_files = templar.template(trust_templates("{{ __base_files_absent }}"))
        return [file["path"] for file in written_files], removed_files

    written_paths, removed_paths = files(base_firewall=False)

    assert removed_paths == ["/etc/gridstead/firewall.nft"]
    assert "/etc/gridstead/firewall.nft" not in written_paths
    with pytest.raises(AnsibleError, match="nowhere"):
        files(base_firewall=True)


@pytest.mark.parametrize(
    ("host", "port", "addresses"),
    [
        ("db", 6819, {"192.0.2.10", "192.0.2.12", "192.0.2.15"}),
        ("controller", 6830, {"192.0.2.14"}),
        ("infra", 8000, {"192.0.2.21", "192.0.2.22", "192.0.2.31"}),
        ("infra", 9419, set()),
        ("db", 3306, set()),
        ("controller", 6820, set()),
    ],
)
def test_a_port_is_open_only_for_its_clients(render, host, port, addresses):
    """If ``addresses`` is empty, no rule contains the port."""
    sources = set()
    for line in render(ROLE, TEMPLATE, host).splitlines():
        # A rule contains "saddr { ADDRESS, ADDRESS }" and "dport PORT".
        if re.search(rf"\b{port}\b", line.partition(" dport ")[2]):
            sources |= set(line.partition("{ ")[2].partition(" }")[0].split(", "))

    assert sources == addresses


def test_the_page_lists_every_flow_of_the_inventory():
    """After a change of the flows, ``python -m tests.roles.flows_page`` updates the page."""
    assert flows_page.PAGE.read_text() == flows_page.page(flows_page.PAGE.read_text())


def test_every_network_port_is_in_the_table():
    """FIXED_PORTS of the inventory check lists the ports on which programs of the roles listen.

    A port that only programs on the same host use has no flow.
    """
    local_ports = {
        3306,  # MariaDB accepts connections from its host only.
        9419,  # No other host has a metalogger.
        9420,  # No other host has a chunk server.
    }
    text = (ROOT / "inventory/group_vars/all/flows.yml").read_text()
    open_ports = set()
    for flow in yaml.safe_load(text)["gridstead_flows"]:
        for group in flow["to"]:
            open_ports |= {(group, str(port)) for port in flow.get("tcp", [])}

    for group, program, first, last in FIXED_PORTS:
        for port in set(range(first, last + 1)) - local_ports:
            assert (group, str(port)) in open_ports, program

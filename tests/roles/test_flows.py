# SPDX-License-Identifier: Apache-2.0
"""The firewall rules of hosts of the example site, and refused tables of flows."""

import re
import subprocess

import pytest
import yaml
from ansible.errors import AnsibleError, AnsibleFilterError
from ansible_collections.gridstead.site.plugins.filter import flows
from ansible_collections.gridstead.site.plugins.module_utils.inventory_check.settings import (
    PROGRAMS,
)
from tests.roles import flows_page
from tests.roles.catalogue import ROOT, Role
from tests.roles.conftest import trust_templates

ROLE = Role("base")
TEMPLATE = ROLE.path / "templates/etc/gridstead/firewall.nft.j2"

HOSTS = [
    {"name": "ash", "address": "192.0.2.1"}, {"name": "birch", "address": "192.0.2.2"},
    {"name": "cedar", "address": "192.0.2.3"},
]  # fmt: skip
GROUPS = {"doors": ["ash"], "nodes": ["birch", "cedar"], "nobody": []}
FLOW = {"what": "it", "to": ["doors"], "from": ["nodes"], "tcp": [443]}


def rules(host="ash", networks=None, **changes):
    return flows.input_rules([FLOW | changes], host, GROUPS, HOSTS, networks)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"to": ["dors"]}, '"dors" is not a group'),
        ({"to": []}, "to must name a group"),
        ({"from": ["node"]}, '"node" is not a group, an address'),
        ({"from": ["192.0.2.1/24"]}, "a network or anyone"),
        ({"from": ["anyone", "node"]}, '"node" is not a group, an address'),
        ({"from": "nodes"}, "from is a list"),
        ({"tcp": [0]}, "is not a port from 1 to 65535"),
        ({"udp": ["2000-1000"]}, "is not a port from 1 to 65535"),
        ({"tcp": ["https"]}, '"https" is not a port'),
        ({"tcp": [True]}, '"True" is not a port'),
        ({"what": 'a "quote'}, "what must have 1 to 100"),
        ({"sctp": [1]}, "not sctp"),
        ({"plain": " "}, "plain must explain why"),
    ],
)
def test_an_invalid_flow_is_refused_on_every_host(changes, why):
    with pytest.raises(AnsibleFilterError, match=why):
        rules(host="cedar", **changes)


def test_a_flow_opens_its_ports_on_its_targets_for_its_sources():
    assert rules(tcp=[443, "8000-8010"], udp=[53]) == [
        'ip saddr { 192.0.2.2/31 } tcp dport { 443, 8000-8010 } accept comment "it"',
        'ip saddr { 192.0.2.2/31 } udp dport { 53 } accept comment "it"',
    ]
    assert rules(host="birch") == []


def test_anyone_needs_no_address():
    assert rules(**{"from": ["nodes", "anyone"]}) == ['tcp dport { 443 } accept comment "it"']


def test_a_flow_from_a_group_without_hosts_opens_nothing():
    assert rules(**{"from": ["nobody"]}) == []


def test_each_address_family_has_one_rule_without_duplicates():
    assert rules(**{"from": ["nodes", "192.0.2.0/24", "2001:db8::/64", "2001:db8::1"]}) == [
        'ip saddr { 192.0.2.0/24 } tcp dport { 443 } accept comment "it"',
        'ip6 saddr { 2001:db8::/64 } tcp dport { 443 } accept comment "it"',
    ]


def test_addresses_of_a_whole_network_are_collapsed():
    hosts = [{"name": f"node{number}", "address": f"192.0.2.{number}"} for number in range(63, 128)]
    groups = GROUPS | {"nodes": [host["name"] for host in hosts]}

    (rule,) = flows.input_rules([FLOW], "ash", groups, hosts)

    assert rule == 'ip saddr { 192.0.2.63, 192.0.2.64/26 } tcp dport { 443 } accept comment "it"'


def test_a_host_does_not_resolve_sources_of_other_hosts_flows(monkeypatch):
    """The resolution took seconds on each of many hosts."""
    monkeypatch.delattr(flows, "sources")

    assert rules(host="cedar") == []


def test_a_new_host_in_a_network_of_its_group_changes_no_rule():
    networks = {"nodes": ["192.0.2.0/28"]}
    before = rules(networks=networks)

    after = flows.input_rules([FLOW], "ash", GROUPS | {"nodes": ["birch"]}, HOSTS, networks)

    assert before == after == ['ip saddr { 192.0.2.0/28 } tcp dport { 443 } accept comment "it"']


def test_nft_accepts_the_rules_of_every_example_host(render, site, tmp_path):
    """The rules are loaded in a private network namespace, in sequence. Each file replaces the
    rules of the last.
    """
    for host in site.hosts_of(ROLE):
        (tmp_path / host).write_text(render(ROLE, TEMPLATE, host))
    loading = "for host in *; do nft --check --file $host && nft --file $host || exit; done; nft list ruleset"

    argv = ["unshare", "--map-root-user", "--net", "sh", "-c", loading]
    result = subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True, text=True)

    assert result.stdout.count("policy drop") == 2


@pytest.mark.parametrize("changed", ["chain output { accept; }", "no rules"])
def test_the_unit_writes_a_copy_of_the_kernels_rules(render, tmp_path, changed):
    """The unit's commands run with other paths, in a private network namespace. The reload has
    other rules.
    """
    unit = render(
        ROLE, ROLE.path / "templates/etc/systemd/system/gridstead-firewall.service.j2", "db"
    ).splitlines()
    start, load = (
        [line.partition("=")[2] for line in unit if re.match(f"Exec{kind}.*=", line)]
        for kind in ("Start", "Reload")
    )
    rules, loaded = tmp_path / "firewall.nft", tmp_path / "loaded.nft"
    old = render(ROLE, TEMPLATE, "db")
    new = old.replace("chain forward {", f"{changed}\n  chain forward {{")
    rules.write_text(old)
    (tmp_path / "new").write_text(new)

    script = f"{' && '.join(start)} && cp new firewall.nft && {' && '.join(load)}; nft list table inet gridstead"
    script = script.replace("/run/gridstead-firewall", str(tmp_path)).replace(
        "/etc/gridstead", str(tmp_path)
    )
    argv = ["unshare", "--map-root-user", "--net", "sh", "-c", script]
    result = subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True, text=True)

    is_loaded = "chain output" in result.stdout
    assert is_loaded is (changed != "no rules")
    assert loaded.read_text() == (new if is_loaded else old)


def test_without_a_firewall_there_are_no_rules_and_no_flow_is_read(site):
    def files(**variables):
        templar = site.templar(ROLE, "db", base_flows=[FLOW | {"to": ["nowhere"]}], **variables)
        templar.available_variables |= {"ansible_search_path": [str(ROLE.path)]}
        with_firewall = [
            file["path"] for file in templar.template(trust_templates("{{ __base_files }}"))
        ]
        return with_firewall, templar.template(trust_templates("{{ __base_files_absent }}"))

    with_firewall, absent = files(base_firewall=False)

    assert absent == ["/etc/gridstead/firewall.nft"]
    assert absent[0] not in with_firewall
    with pytest.raises(AnsibleError, match="nowhere"):
        files(base_firewall=True)


@pytest.mark.parametrize(
    ("host", "port", "addresses"),
    [
        ("db", 6819, {"192.0.2.10", "192.0.2.12", "192.0.2.15"}),
        ("controller", 6830, {"192.0.2.14"}),
        ("infra", 8000, {"192.0.2.21", "192.0.2.22", "192.0.2.31"}),
        ("infra", 9419, None),
        ("db", 3306, None),
        ("controller", 6820, None),
    ],
)
def test_a_port_is_open_only_for_its_clients(render, host, port, addresses):
    """None: no rule has the port."""
    lines = [
        line.strip() for line in render(ROLE, TEMPLATE, host).splitlines() if f"{{ {port}" in line
    ]

    open_to = {
        item for line in lines for item in line.partition("{ ")[2].partition(" }")[0].split(", ")
    }
    assert (open_to or None) == addresses


def test_the_page_lists_every_flow_of_the_inventory():
    """Run ``python -m tests.roles.flows_page`` after a change of the table."""
    assert flows_page.PAGE.read_text() == flows_page.page(flows_page.PAGE.read_text())


def test_every_network_port_is_in_the_table():
    """The inventory check lists the listening ports. A port for the host itself has no flow."""
    own = {3306}  # MariaDB is for the host itself
    own |= {9419, 9420}  # metaloggers and chunk servers: there are none on other hosts
    table = yaml.safe_load((ROOT / "inventory/group_vars/all/flows.yml").read_text())[
        "gridstead_flows"
    ]
    listed = [
        (group, port) for flow in table for group in flow["to"] for port in flow.get("tcp", [])
    ]

    missing = [
        (program, port)
        for group, program, first, last in PROGRAMS
        for port in range(first, last + 1)
        if port not in own
        and not any(
            to == group and str(port_text).isdigit() and int(port_text) == port
            for to, port_text in listed
        )
    ]

    assert missing == []

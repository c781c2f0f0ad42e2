"""Updates of a NIC by the libvirt driver, which leave the rest of the machine unchanged."""

from dataclasses import replace

import libvirt
from lxml import etree

from worker.nodes.base import FirewallRule, Nic
from worker.nodes.libvirt import firewall, nic_devices, xml

NIC = Nic("52:54:00:00:00:01", "public", ("10.0.0.2", "fd00::2"))


class Connection:
    """Records the updates of one machine with one NIC."""

    def __init__(self, nic, running):
        nic_element = xml.build_nic(0, nic, {}, True, True)
        nic_element.append(etree.fromstring("<target dev='vnet7'/>"))
        self.nic_element, self.running, self.filters, self.updates = nic_element, running, [], []

    def lookupByUUIDString(self, _):
        return self

    def isActive(self):
        return self.running

    def XMLDesc(self, flags=0):
        text = etree.tostring(self.nic_element, pretty_print=True).decode()
        return f"<domain>\n  <devices>\n    {text}\n  </devices>\n</domain>"

    def nwfilterDefineXML(self, text):
        self.filters.append(etree.fromstring(text))

    def updateDeviceFlags(self, text, flags):
        self.updates.append((etree.fromstring(text), flags))


def change_nics(*nics, running=True, **options):
    connection = Connection(NIC, running)
    nic_devices.update_nics(connection, "id", nics, options.get("limits", True), options.get("guarded", True))
    return connection


def test_changed_rules_and_addresses_update_filter_only():
    connection = change_nics(
        replace(NIC, addresses=("10.0.0.3",), allowed=(FirewallRule("in", 4, "tcp", (80, 80)),), mail=False)
    )
    assert [nic_filter.get("name") for nic_filter in connection.filters] == [firewall.make_filter_name(NIC.mac)]
    assert connection.updates == []


def test_disconnected_link_updates_running_machine_and_definition():
    connection = change_nics(replace(NIC, connected=False))
    assert [flags for _, flags in connection.updates] == [
        libvirt.VIR_DOMAIN_AFFECT_CONFIG,
        libvirt.VIR_DOMAIN_AFFECT_LIVE,
    ]
    for nic_element, _ in connection.updates:
        assert [link.get("state") for link in nic_element.findall("link")] == ["down"]
        assert nic_element.find("target").get("dev") == "vnet7"
        assert nic_element.find("mac").get("address") == NIC.mac
    assert [flags for _, flags in change_nics(replace(NIC, connected=False), running=False).updates] == [
        libvirt.VIR_DOMAIN_AFFECT_CONFIG
    ]


def test_speed_limit_is_updated_where_supported():
    limited = replace(NIC, inbound_mbps=80, outbound_mbps=8)
    nic_element, _ = change_nics(limited).updates[0]
    assert nic_element.find("bandwidth/inbound").get("average") == "10000"
    assert change_nics(limited, limits=False).updates == []


def test_unknown_nic_is_ignored():
    connection = change_nics(replace(NIC, mac="52:54:00:00:00:02", connected=False))
    assert (connection.filters, connection.updates) == ([], [])


def test_shared_filter_of_older_release_is_replaced_by_own_filter():
    connection = Connection(NIC, running=True)
    connection.nic_element.find("filterref").set("filter", "panel-guard")
    nic_devices.update_nics(connection, "id", (NIC,), True, True)
    assert [nic_element.find("filterref").get("filter") for nic_element, _ in connection.updates] == [
        firewall.make_filter_name(NIC.mac)
    ] * 2


def build_filter(**facts):
    return etree.fromstring(firewall.build_filter(replace(NIC, **facts)))


def test_rule_matches_remote_network_as_source_or_destination():
    into, out = (
        FirewallRule("in", 4, "tcp", (80, 443), "10.0.0.0/8"),
        FirewallRule("out", 6, "udp", (53, 53), "fd00::/64"),
    )
    nic_filter = build_filter(allowed=(into, out))
    [tcp], [udp] = nic_filter.findall("rule/tcp"), nic_filter.findall("rule/udp-ipv6")
    assert dict(tcp.attrib) == {"srcipaddr": "10.0.0.0", "srcipmask": "8", "dstportstart": "80", "dstportend": "443"}
    assert dict(udp.attrib) == {"dstipaddr": "fd00::", "dstipmask": "64", "dstportstart": "53", "dstportend": "53"}
    last = nic_filter.findall("rule")[-2:]
    assert [(rule.get("action"), rule[0].tag) for rule in last] == [("drop", "all"), ("drop", "all-ipv6")]


def test_open_nic_has_no_connection_rules():
    nic_filter = build_filter(mail=False, prefixes=("fd01::/64",))
    assert [(rule.get("action"), rule.get("direction")) for rule in nic_filter.findall("rule")] == [
        ("accept", "out"),
        ("drop", "out"),
        ("drop", "out"),
    ]
    assert nic_filter.find("uuid").text == build_filter().find("uuid").text


def test_failed_firewall_rules_are_applied_again(monkeypatch):
    """ebtables of another program changed the tables at the same moment."""
    errors = [libvirt.libvirtError(f"{nic_devices.FIREWALL_ERROR} ebtables: RULE_DELETE failed")] * 2
    calls = []

    def fail_twice(*arguments):
        calls.append(arguments)
        if errors:
            raise errors.pop()

    monkeypatch.setattr(nic_devices, "try_update_nics", fail_twice)
    monkeypatch.setattr(nic_devices, "FIREWALL_RETRY_SECONDS", 0)
    nic_devices.update_nics(None, "machine", [NIC], True, True)
    assert len(calls) == 3

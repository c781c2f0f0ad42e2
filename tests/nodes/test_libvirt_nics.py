"""What the driver tells libvirt of a card that changes, and that it leaves the rest of the machine alone."""

from dataclasses import replace

import libvirt
from lxml import etree

from worker.nodes.base import FirewallRule, Nic
from worker.nodes.libvirt import firewall, nic_devices, xml

NIC = Nic("52:54:00:00:00:01", "public", ("10.0.0.2", "fd00::2"))


class Connection:
    """Keeps what it is told of one machine with one card."""

    def __init__(self, nic, running):
        card = xml.nic_element(0, nic, {}, True, True)
        card.append(etree.fromstring("<target dev='vnet7'/>"))
        self.card, self.running, self.filters, self.updates = card, running, [], []

    def lookupByUUIDString(self, _):
        return self

    def isActive(self):
        return self.running

    def XMLDesc(self, flags=0):
        text = etree.tostring(self.card, pretty_print=True).decode()
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
    found = change_nics(
        replace(NIC, addresses=("10.0.0.3",), allowed=(FirewallRule("in", 4, "tcp", (80, 80)),), mail=False)
    )
    assert [each.get("name") for each in found.filters] == [firewall.filter_name(NIC.mac)]
    assert found.updates == []


def test_disconnected_link_updates_running_machine_and_definition():
    found = change_nics(replace(NIC, connected=False))
    assert [flags for _, flags in found.updates] == [
        libvirt.VIR_DOMAIN_AFFECT_CONFIG,
        libvirt.VIR_DOMAIN_AFFECT_LIVE,
    ]
    for card, _ in found.updates:
        assert [link.get("state") for link in card.findall("link")] == ["down"]
        assert card.find("target").get("dev") == "vnet7"
        assert card.find("mac").get("address") == NIC.mac
    assert [flags for _, flags in change_nics(replace(NIC, connected=False), running=False).updates] == [
        libvirt.VIR_DOMAIN_AFFECT_CONFIG
    ]


def test_speed_limit_is_updated_where_supported():
    limited = replace(NIC, inbound_mbps=80, outbound_mbps=8)
    card, _ = change_nics(limited).updates[0]
    assert card.find("bandwidth/inbound").get("average") == "10000"
    assert change_nics(limited, limits=False).updates == []


def test_unknown_nic_is_ignored():
    found = change_nics(replace(NIC, mac="52:54:00:00:00:02", connected=False))
    assert (found.filters, found.updates) == ([], [])


def test_shared_filter_of_older_release_is_replaced_by_own_filter():
    connection = Connection(NIC, running=True)
    connection.card.find("filterref").set("filter", "panel-guard")
    nic_devices.update_nics(connection, "id", (NIC,), True, True)
    assert [card.find("filterref").get("filter") for card, _ in connection.updates] == [
        firewall.filter_name(NIC.mac)
    ] * 2


def describe_domain(**facts):
    return etree.fromstring(firewall.build_filter(replace(NIC, **facts)))


def test_rule_matches_remote_network_as_source_or_destination():
    into, out = (
        FirewallRule("in", 4, "tcp", (80, 443), "10.0.0.0/8"),
        FirewallRule("out", 6, "udp", (53, 53), "fd00::/64"),
    )
    found = describe_domain(allowed=(into, out))
    [tcp], [udp] = found.findall("rule/tcp"), found.findall("rule/udp-ipv6")
    assert dict(tcp.attrib) == {"srcipaddr": "10.0.0.0", "srcipmask": "8", "dstportstart": "80", "dstportend": "443"}
    assert dict(udp.attrib) == {"dstipaddr": "fd00::", "dstipmask": "64", "dstportstart": "53", "dstportend": "53"}
    last = found.findall("rule")[-2:]
    assert [(each.get("action"), each[0].tag) for each in last] == [("drop", "all"), ("drop", "all-ipv6")]


def test_open_nic_has_no_connection_rules():
    found = describe_domain(mail=False, prefixes=("fd01::/64",))
    assert [(each.get("action"), each.get("direction")) for each in found.findall("rule")] == [
        ("accept", "out"),
        ("drop", "out"),
        ("drop", "out"),
    ]
    assert found.find("uuid").text == describe_domain().find("uuid").text

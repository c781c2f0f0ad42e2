"""The URLs that webhooks may have."""

from ipaddress import ip_address, ip_network

import dns.resolver
import pytest

from panel.core.config import Config, ConfigError
from panel.core.errors import Invalid
from panel.services.webhooks import url_policy

REFUSED_URLS = {
    "WHK-12": ["http://8.8.8.8/", "ftp://8.8.8.8/", "8.8.8.8", "//8.8.8.8/", "https:/8.8.8.8", "https://"],
    "WHK-14": ["https://127.0.0.1/", "https://127.1.2.3/", "https://localhost/", "https://a.localhost"],
    "WHK-15": ["https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[::127.0.0.1]/"],
    "WHK-16": ["https://169.254.169.254/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[fec0::1]/"],
    "WHK-17": [
        "https://10.0.0.1/", "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.0.1/",
        "https://[fd00::1]/", "https://[fc00::1]/", "https://100.64.0.1/",
    ],
    "WHK-19": [
        "https://2130706433/", "https://0x7f.1/", "https://0x7f000001/", "https://0/", "https://127.1/",
        "https://017700000001/", "https://0177.0.0.1/", "https://127.000.000.001/", "https://localhost./",
        "https://127.0.0.1./", "https://LOCALHOST/", "https://user@8.8.8.8/", "https://user:secret@8.8.8.8/",
        "https://@8.8.8.8/", "https://8.8.8.8@127.0.0.1/", "https://8.8.8.8\\@127.0.0.1/", "https://①②⑦.0.0.1/",
        "https://127。0。0。1/", "https://8.8.8.8 @127.0.0.1", "https://8.8.8.8\t/", "https://[2606::1%251]/",
        "https://[v1.a]/", "https://example.123/", "https://-a.example.com/", "https://a..example.com/",
    ],
    "WHK-20": ["https://0.0.0.0/", "https://[::]/"],
    "other": [
        "https://224.0.0.1/", "https://240.0.0.1/", "https://255.255.255.255/", "https://192.0.2.1/",
        "https://198.18.0.1/", "https://192.88.99.1/", "https://[ff02::1]/", "https://[2001:db8::1]/",
        "https://[2002:7f00:1::]/", "https://[2002:808:808::]/", "https://[64:ff9b::10.0.0.1]/",
        "https://[64:ff9b:1::1]/", "https://[2001::1]/", "https://[::ffff:10.0.0.1]/", "https://[100::1]/",
    ],
    "ports": [
        "https://8.8.8.8:0/", "https://8.8.8.8:99999/", "https://8.8.8.8:x/", "https://8.8.8.8:22/",
        "https://8.8.8.8:6379/", "https://8.8.8.8:5432/", "https://8.8.8.8:16514/", "https://8.8.8.8:5901/",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("requirement", "url"), [(requirement, url) for requirement, urls in REFUSED_URLS.items() for url in urls]
)
def test_url_that_is_not_public_https_is_refused(requirement, url):
    """WHK-12 WHK-14 WHK-15 WHK-16 WHK-17 WHK-19 WHK-20: when it is saved, with a message, and when a delivery is
    sent."""
    with pytest.raises(Invalid) as refused:
        url_policy.ensure_allowed(url)
    assert refused.value.fields["url"] == [refused.value.message]
    assert refused.value.message.endswith(".")
    with pytest.raises(url_policy.UrlRefused):
        url_policy.resolve_target(url)


SPECIAL_NETWORKS = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4", "::/128", "::1/128", "::ffff:0:0/104", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64",
    "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10",
    "ff00::/8",
]  # fmt: skip
"""Networks of IANA's registries of special-purpose and multicast addresses, without globally reachable ones (2026)."""


@pytest.mark.parametrize("cidr", SPECIAL_NETWORKS)
def test_special_purpose_networks_are_not_public(cidr):
    """3fff::/20 counted as public."""
    network = ip_network(cidr)
    for ip in (network[0], network[1 % network.num_addresses], network[network.num_addresses // 2], network[-1]):
        assert not url_policy.is_public(ip), ip


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://8.8.8.8/", ("8.8.8.8", 443, "/")),
        ("https://8.8.8.8:8443/a/b?c=d#e", ("8.8.8.8", 8443, "/a/b?c=d")),
        ("https://[2606:4700::1111]?x", ("2606:4700::1111", 443, "/?x")),
        ("https://[64:ff9b::8.8.8.8]/", ("64:ff9b::808:808", 443, "/")),
        ("HTTPS://8.8.8.8", ("8.8.8.8", 443, "/")),
    ],
)
def test_public_https_url_is_allowed(url, target):
    assert url_policy.resolve_target(url)[0] == target


@pytest.mark.parametrize("internal_address", ["127.0.0.1", "::1", "10.0.0.1", "fd00::1", "169.254.1.1", "fe80::1"])
def test_name_with_one_internal_address_is_refused(monkeypatch, internal_address):
    """WHK-18: also when its other addresses are public."""
    monkeypatch.setattr(url_policy, "resolve", lambda name: [ip_address("8.8.8.8"), ip_address(internal_address)])
    with pytest.raises(Invalid, match="not a public address"):
        url_policy.ensure_allowed("https://hooks.example.com/")


def test_unresolvable_name_is_refused(monkeypatch):
    """WHK-18."""

    class Resolver:
        def resolve_name(self, name, **_):
            raise dns.resolver.NXDOMAIN

    monkeypatch.setattr(dns.resolver, "get_default_resolver", Resolver)
    with pytest.raises(Invalid, match="could not be resolved"):
        url_policy.ensure_allowed("https://nowhere.example/")


def test_names_are_resolved_without_search_domains(monkeypatch):
    """The search domain of the panel's own network must not be added."""
    lookups = []

    class Answers:
        def addresses(self):
            return ["2606:4700::1111", "8.8.8.8"]

    class Resolver:
        def resolve_name(self, name, *, lifetime, search):
            lookups.append((name, search))
            return Answers()

    monkeypatch.setattr(dns.resolver, "get_default_resolver", Resolver)
    target, resolved = url_policy.resolve_target("https://Hooks.Example.com.:444/")
    assert lookups == [("hooks.example.com.", False)]
    assert (target.host, target.port) == ("hooks.example.com", 444)
    assert resolved == [ip_address("8.8.8.8"), ip_address("2606:4700::1111")]


def test_configured_networks_are_allowed(change_config):
    change_config(webhook_allowed_networks="127.0.0.0/8, fd00::/8")
    assert url_policy.is_permitted(ip_address("fd00::1"))
    assert url_policy.resolve_target("https://127.0.0.1:6379/")[0].port == 6379
    with pytest.raises(url_policy.UrlRefused):
        url_policy.resolve_target("https://10.0.0.1/")


def test_invalid_allowed_networks_are_refused():
    with pytest.raises(ConfigError, match="PANEL_WEBHOOK_ALLOWED_NETWORKS"):
        Config(webhook_allowed_networks="everywhere")

"""Where micro VMs may send to: pure computations."""

import pytest

from panel.services.microvms.egress import (
    EVERYTHING,
    SPECIAL_NETWORKS,
    EgressRules,
    compute_egress,
    compute_refused,
    is_reachable,
)

PANEL, NODE, SUBNET = "31.0.0.7", "32.0.0.1", "33.0.0.0/24"
REFUSED = compute_refused(True, [SUBNET, "2001:db8::/32"], [PANEL, NODE, "2001:db8::1"])
INTERNET = ("1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "223.255.255.255", "33.0.1.1")
NEVER = (
    *("0.0.0.0", "10.0.0.1", "10.255.255.255", "127.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("100.64.0.1", "100.96.0.1", "100.127.255.255", "169.254.169.254", "192.0.0.1", "192.0.2.1", "192.88.99.1"),
    *("198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *(PANEL, NODE, "33.0.0.0", "33.0.0.255"),
)


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.parametrize(
    "rules",
    [compute_egress(True, [], []), compute_egress(True, [EVERYTHING], []), compute_egress(False, [PANEL, NODE], [])],
)
def test_platform_and_special_networks_are_never_reachable(address, rules):
    assert not is_reachable(address, REFUSED, rules)
    own = {*SPECIAL_NETWORKS, SUBNET, f"{PANEL}/32", f"{NODE}/32"}
    assert set(REFUSED) == own, "nothing else is refused, and nothing of IPv6 is in the list"


@pytest.mark.parametrize(
    ("rules", "reached"),
    [
        ((True, [], []), INTERNET),
        ((True, ["8.8.8.8"], []), INTERNET),
        ((False, [], []), ()),
        ((False, [], ["1.1.1.1"]), ()),
        ((False, ["8.8.8.0/24", "10.0.0.0/8"], []), ("8.8.8.8",)),
        ((True, [], [EVERYTHING]), ()),
        ((True, ["1.1.1.1/32"], [EVERYTHING]), ("1.1.1.1",)),
        ((True, [], ["1.0.0.0/8", "8.8.8.8", "::/0"]), INTERNET[2:]),
        ((True, ["8.8.8.8"], ["8.0.0.0/8", "1.1.1.1"]), INTERNET[1:]),
    ],
)
def test_allowed_networks_win_over_denied_ones(rules, reached):
    egress = compute_egress(*rules)
    assert tuple(address for address in INTERNET if is_reachable(address, REFUSED, egress)) == reached


def test_operator_without_internet_access_refuses_everything():
    refused = compute_refused(False, [SUBNET])
    assert refused == (EVERYTHING,)
    assert not any(is_reachable(address, refused, EgressRules((EVERYTHING,))) for address in INTERNET)


def test_networks_are_merged():
    egress = compute_egress(True, ["8.8.8.0/25", "8.8.8.128/25", "8.8.8.8"], ["9.0.0.1/8", "2001:db8::/32"])
    assert egress == EgressRules(("8.8.8.0/24",), ("9.0.0.0/8",))

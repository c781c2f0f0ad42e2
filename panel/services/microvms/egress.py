"""Where micro VMs may send to. Pure functions over IPv4 networks; nothing of IPv6 leaves a micro VM."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

SPECIAL_NETWORKS = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",
)
"""What is not the internet: private, shared, link-local, loopback, multicast and reserved networks (RFC 6890)."""
EVERYTHING = "0.0.0.0/0"


@dataclass(frozen=True)
class EgressRules:
    """Networks to which one micro VM may, and may not, send. The former win; all others are allowed."""

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()


def compute_refused(is_allowed: bool, *known: Iterable[str]) -> tuple[str, ...]:
    """Return the networks that no micro VM of a node may send to. `is_allowed`: whether the operator allows internet
    access; `known`: addresses and networks of the panel, of nodes and of customers, of both families."""
    if not is_allowed:
        return (EVERYTHING,)
    return merge_networks((*SPECIAL_NETWORKS, *(network for networks in known for network in networks)))


def compute_egress(allow_internet_access: bool, allow_out: Iterable[str], deny_out: Iterable[str]) -> EgressRules:
    """Return the rules that a customer chose, as E2B defines them: no internet access denies everything."""
    denied = (EVERYTHING,) if not allow_internet_access else merge_networks(deny_out)
    return EgressRules(merge_networks(allow_out), denied)


def is_reachable(address: str, refused: Iterable[str], rules: EgressRules) -> bool:
    """Return whether a micro VM may send to the address."""
    return not is_in_networks(refused, address) and (
        is_in_networks(rules.allowed, address) or not is_in_networks(rules.denied, address)
    )


def is_in_networks(networks: Iterable[str], address: str) -> bool:
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(network) for network in networks)


def merge_networks(networks: Iterable[str]) -> tuple[str, ...]:
    """Return the IPv4 ones as the smallest list of the same addresses, sorted."""
    parsed = (ipaddress.ip_network(network, strict=False) for network in networks)
    return tuple(str(network) for network in ipaddress.collapse_addresses(n for n in parsed if n.version == 4))

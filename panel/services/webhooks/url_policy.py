"""Which addresses webhooks may go to: HTTPS on public addresses.

The policy is checked when an address is saved, and before each connection, which is made to the very address that was
checked. `ensure_allowed` is for saving, `resolve_target` for connecting.
"""

import ipaddress
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

import dns.exception
import dns.resolver

from panel.core import context
from panel.core.errors import Invalid
from panel.core.messages import get_message, message

DNS_TIMEOUT_SECONDS = 4.0
"""Time limit for resolving a name."""

LABEL_PATTERN = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
LAST_LABEL_PATTERN = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
"""The last label begins with a letter.

Otherwise it may be a number that some resolvers read as an address: `0x7f.1`.
"""

FORBIDDEN_CHARACTERS = re.compile(r"[^\x21-\x7e]|\\")
PRIVATE_PORTS = {22, 23, 25, 53, 110, 111, 143, 465, 587, 993, 995, 2049, 3306, 5432, 6379, 11211, 16509, 16514}
"""Ports of services that do not speak HTTPS and are not public: mail, logins, and those that the panel itself uses."""
VNC_PORTS = range(5900, 6000)

GLOBAL_NETWORK = ipaddress.ip_network("2000::/3")
NAT64_NETWORK = ipaddress.ip_network("64:ff9b::/96")
RELAY_NETWORK = ipaddress.ip_network("192.88.99.0/24")
RESERVED_NETWORKS = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "2001::/23", "3fff::/20")))
"""Special networks that `ipaddress` reports as global, in some Python versions or wholly; 3fff::/20: RFC 9637."""

NOT_PUBLIC_MESSAGE = message(
    "It leads to {address}, which is not a public address. Only the public internet can be reached."
)


IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


class UrlRefused(Exception):
    """The address is not allowed or cannot be resolved. The message is a sentence."""


class Target(NamedTuple):
    host: str
    """A name in lower case without a final dot, or an address."""
    port: int
    path: str
    """With the query string."""


def ensure_allowed(url: str) -> None:
    """Raise Invalid for the field `url` if webhooks may not go there now."""
    try:
        resolve_target(url)
    except UrlRefused as refused:
        raise Invalid(get_message(refused), url=get_message(refused)) from None


def resolve_target(url: str) -> tuple[Target, list[IpAddress]]:
    """Return the target and its addresses, all of which are public. IPv4 comes first, because it works everywhere."""
    target = parse_url(url)
    addresses = sorted(resolve(target.host), key=lambda ip: ip.version)
    for ip in addresses:
        if not is_permitted(ip):
            raise UrlRefused(NOT_PUBLIC_MESSAGE.format(address=ip))
    if (target.port in PRIVATE_PORTS or target.port in VNC_PORTS) and not all(map(is_in_allowed_networks, addresses)):
        raise UrlRefused(message("Port {port} is not allowed for webhooks. Use 443 or another port.", port=target.port))
    return target, addresses


def parse_url(url: str) -> Target:
    if FORBIDDEN_CHARACTERS.search(url):
        raise UrlRefused(
            message(
                "The address must be ASCII without spaces and backslashes. Write an international name as xn--…, and"
                " escape what else is not ASCII."
            )
        )
    try:
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else 443
    except ValueError:
        raise UrlRefused(message("The address is not a valid URL. Write it like https://example.com/path.")) from None
    if parts.scheme != "https":
        raise UrlRefused(message("The address must begin with https://."))
    if "@" in parts.netloc:
        raise UrlRefused(message("The address must not have a user name or password in it."))
    if not port:
        raise UrlRefused(message("Port 0 is not a port."))
    path = parts.path or "/"
    return Target(parse_host(parts), port, f"{path}?{parts.query}" if parts.query else path)


def parse_host(parts: SplitResult) -> str:
    """Return the host if it has the usual spelling, which no resolver reads in another way."""
    name = (parts.hostname or "").removesuffix(".")
    if "[" in parts.netloc or name.replace(".", "").isdecimal():
        with suppress(ValueError):
            if "%" not in name:
                return str(ipaddress.ip_address(name))
        raise UrlRefused(message("The address's host is a number, but not an IP address as it is usually written."))
    *labels, last = name.split(".")
    if len(name) > 253 or not LAST_LABEL_PATTERN.fullmatch(last) or not all(map(LABEL_PATTERN.fullmatch, labels)):
        raise UrlRefused(message("The address's host is neither a name nor an IP address as they are usually written."))
    return name


def resolve(name: str) -> list[IpAddress]:
    """Return the addresses of a name, or the address itself."""
    with suppress(ValueError):
        return [ipaddress.ip_address(name)]
    if name == "localhost" or name.endswith(".localhost"):
        return [ipaddress.ip_address("127.0.0.1")]
    try:
        answers = dns.resolver.get_default_resolver().resolve_name(
            f"{name}.", lifetime=DNS_TIMEOUT_SECONDS, search=False
        )
        addresses = [ipaddress.ip_address(text) for text in answers.addresses()]
    except dns.exception.DNSException:
        addresses = []
    if not addresses:
        raise UrlRefused(message("The host name {name} could not be resolved. Check its DNS record.", name=name))
    return addresses


def is_permitted(ip: IpAddress) -> bool:
    return is_in_allowed_networks(ip) or is_public(ip)


def is_in_allowed_networks(ip: IpAddress) -> bool:
    """Return whether the installation counts the address as public, for test environments."""
    networks: Iterable[IpNetwork] = context.current().config.webhook_networks
    return any(ip in network for network in networks)


def is_public(ip: IpAddress) -> bool:
    """Return whether an address is a public one. IPv6 forms that contain an IPv4 address are judged by it."""
    if any(ip in network for network in RESERVED_NETWORKS):
        return False
    if ip.version == 4:
        return ip.is_global and not ip.is_multicast and ip not in RELAY_NETWORK
    if embedded := ip.ipv4_mapped or (ip in NAT64_NETWORK and ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)):
        return is_public(embedded)
    return ip in GLOBAL_NETWORK and ip.is_global and not ip.sixtofour and not ip.teredo

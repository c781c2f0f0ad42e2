"""Where webhooks may go: to HTTPS on public addresses. Looked at when an address is saved, and before each connection,
which then goes to the very address that was looked at.

`check` is for who saves, `addresses` for who connects. What they refuse they say in a sentence.
"""

import ipaddress
import re
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import dns.exception
import dns.resolver

from panel.core.errors import Invalid

PATIENCE = 4.0
"""Seconds that asking for a name's addresses may take."""

LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
LAST = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
"""The last label begins with a letter. What does not may be a number that some take for an address: `0x7f.1`."""

OUTSIDE = re.compile(r"[^\x21-\x7e]|\\")
PRIVATE_PORTS = {22, 23, 25, 53, 110, 111, 143, 465, 587, 993, 995, 2049, 3306, 5432, 6379, 11211, 16509, 16514}
"""Of services that do not speak HTTPS and are not for strangers: those that the panel itself uses, mail, logins."""
SCREENS = range(5900, 6000)

GLOBAL = ipaddress.ip_network("2000::/3")
TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
RELAYS = ipaddress.ip_network("192.88.99.0/24")
RESERVED_NETWORKS = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "2001::/23", "3fff::/20")))
"""Special networks that `ipaddress` takes for global, wholly or in some Python versions; 3fff::/20 is of RFC 9637."""

NOT_PUBLIC = "It leads to {}, which is not a public address. Only the public internet can be reached."


class Refused(Exception):
    """Webhooks do not go there, or nobody knows where it is. The message is a sentence."""


class Target(NamedTuple):
    host: str
    """A name in lower case without a final dot, or an address."""
    port: int
    path: str
    """With the query."""


allowed = ()
"""Networks that are taken for public: a laboratory's (PANEL_WEBHOOK_ALLOWED_NETWORKS)."""

authorities = ""
"""Certificates that are trusted besides the usual ones (PANEL_WEBHOOK_CA)."""


def configure(config):
    global allowed, authorities
    allowed, authorities = config.webhook_networks, config.webhook_ca


def check(url):
    """Raises Invalid, for the field `url`, when webhooks may not go there as of now."""
    try:
        addresses(url)
    except Refused as refused:
        raise Invalid(str(refused), url=str(refused)) from None


def addresses(url):
    """The target, and its addresses: all are public. IPv4 ones come first, because they work from everywhere."""
    target = parse(url)
    found = sorted(resolve(target.host), key=lambda ip: ip.version)
    for ip in found:
        if not permitted(ip):
            raise Refused(NOT_PUBLIC.format(ip))
    if (target.port in PRIVATE_PORTS or target.port in SCREENS) and not all(map(inside, found)):
        raise Refused(f"Port {target.port} is not one of a web server. Use 443 or another one.")
    return target, found


def parse(url):
    if OUTSIDE.search(url):
        raise Refused(
            "The address must be ASCII without spaces and backslashes. Write an international name as xn--…, and"
            " escape what else is not ASCII."
        )
    try:
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else 443
    except ValueError:
        raise Refused("The address is not a valid URL. Write it like https://example.com/path.") from None
    if parts.scheme != "https":
        raise Refused("The address must begin with https://.")
    if "@" in parts.netloc:
        raise Refused("The address must not have a user name or password in it.")
    if not port:
        raise Refused("Port 0 is not a port.")
    path = parts.path or "/"
    return Target(host(parts), port, f"{path}?{parts.query}" if parts.query else path)


def host(parts):
    """The host when it has the one spelling that nobody reads in another way."""
    name = (parts.hostname or "").removesuffix(".")
    if "[" in parts.netloc or name.replace(".", "").isdecimal():
        with suppress(ValueError):
            if "%" not in name:
                return str(ipaddress.ip_address(name))
        raise Refused("The address's host is a number, but not an IP address as it is usually written.")
    *labels, last = name.split(".")
    if len(name) > 253 or not LAST.fullmatch(last) or not all(map(LABEL.fullmatch, labels)):
        raise Refused("The address's host is neither a name nor an IP address as they are usually written.")
    return name


def resolve(name):
    """The addresses of a name, or of the address that it is."""
    with suppress(ValueError):
        return [ipaddress.ip_address(name)]
    if name == "localhost" or name.endswith(".localhost"):
        return [ipaddress.ip_address("127.0.0.1")]
    try:
        answers = dns.resolver.get_default_resolver().resolve_name(f"{name}.", lifetime=PATIENCE, search=False)
        found = [ipaddress.ip_address(text) for text in answers.addresses()]
    except dns.exception.DNSException:
        found = []
    if not found:
        raise Refused(f"Nobody knows an address of {name}. Look at its DNS records.")
    return found


def permitted(ip):
    return inside(ip) or public(ip)


def inside(ip):
    return any(ip in network for network in allowed)


def public(ip):
    """Whether an address is one of the public internet. IPv6 forms that carry an IPv4 address are what they carry."""
    if any(ip in network for network in RESERVED_NETWORKS):
        return False
    if ip.version == 4:
        return ip.is_global and not ip.is_multicast and ip not in RELAYS
    if carried := ip.ipv4_mapped or (ip in TRANSLATED and ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)):
        return public(carried)
    return ip in GLOBAL and ip.is_global and not ip.sixtofour and not ip.teredo

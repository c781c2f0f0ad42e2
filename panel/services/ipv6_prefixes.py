"""Kinds of subnets. A `public` one gives single addresses, a `private` one IPv4 addresses that are valid only within
the location, and a `routed` one whole IPv6 prefixes, for example a /48 as /64s.

Nodes let a guest send from every address of its prefixes. Routing to them is configured by the operator: either the
router has a route for each prefix to the instance's primary IPv6 address, or the whole range is on-link and the guest
answers for the addresses that it uses.
"""

from ipaddress import IPv4Network, IPv6Network

from panel.core.errors import Invalid
from panel.core.messages import message

DEFAULT_PREFIX_LENGTH = 64


def get_prefix_length(network: IPv4Network | IPv6Network, kind: str, requested_length: int | None = None) -> int | None:
    """Return the length of the prefixes that a new subnet gives out; None for one with single addresses."""
    if kind != "routed":
        ensure_kind_matches(network, kind, requested_length)
        return None
    if network.version == 4:
        raise Invalid(
            message("Only IPv6 networks are routed as prefixes."),
            kind=message("Must be `public` or `private` for IPv4."),
        )
    length = requested_length or max(DEFAULT_PREFIX_LENGTH, network.prefixlen)
    if length < network.prefixlen:
        sentence = message(
            "The range is a /{prefixlen}, which holds no /{length}.", prefixlen=network.prefixlen, length=length
        )
        raise Invalid(sentence, delegated_length=sentence)
    return length


def ensure_kind_matches(network: IPv4Network | IPv6Network, kind: str, requested_length: int | None) -> None:
    if kind == "private" and network.version == 6:
        raise Invalid(message("Private subnets are for IPv4."), kind=message("Must be `public` or `routed` for IPv6."))
    if requested_length:
        raise Invalid(
            message("Only a routed subnet has prefixes."), delegated_length=message("Only for the kind `routed`.")
        )

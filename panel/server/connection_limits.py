"""Limits of client connections: sizes, durations, and connections per address."""

import ipaddress
from collections import Counter
from dataclasses import dataclass, field

BODY_PAUSE_SECONDS = 10
"""How long a client may pause within a body."""

KEEP_ALIVE_SECONDS = 15
"""How long an idle connection stays open."""

LAST_REQUEST_SECONDS = 2
"""How long a stopping process waits for the first request of a connection that it has accepted."""

WRITE_STALL_SECONDS = 30
"""How long a client may read nothing of an answer."""

DRAIN_SECONDS = 30
"""How long the rest of a request is read after an early answer, so that the client can read the answer."""

TARGET_MAX_BYTES = 4094
HEADER_MAX_BYTES = 8190
HEAD_MAX_BYTES = 128 * 1024
HEAD_MAX_FIELDS = 100
PIPELINED_MAX_REQUESTS = 128
EARLY_MAX_BYTES = 64 * 1024


@dataclass
class ConnectionLimits:
    """The limits that depend on the configuration, and the counts of one process."""

    head_seconds: float = 30
    incomplete_heads_per_address: int = 0
    trusted_proxies: tuple = ()
    incomplete_heads: Counter = field(default_factory=Counter)

    def is_exempt(self, address):
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return True
        ip = getattr(ip, "ipv4_mapped", None) or ip
        return any(ip in network for network in self.trusted_proxies)

    def count_head(self, address):
        """Count a connection with an incomplete head. Return whether its address is within the limit."""
        self.incomplete_heads[address] += 1
        return self.incomplete_heads[address] <= self.incomplete_heads_per_address

    def forget_head(self, address):
        self.incomplete_heads[address] -= 1
        if not self.incomplete_heads[address]:
            del self.incomplete_heads[address]

"""How much, how slowly and how many at once clients may send."""

import ipaddress
from collections import Counter
from dataclasses import dataclass, field

BODY_PAUSE_SECONDS = 10
"""How long a client may send nothing inside a body."""

KEEP_ALIVE_SECONDS = 15
"""How long an unused connection stays open."""

WRITE_STALL_SECONDS = 30
"""How long a client may take nothing of an answer."""

DRAIN_SECONDS = 30
"""How long the rest of a request that was answered early is read, so that its client can read the answer."""

TARGET_MAX_BYTES = 4094
HEADER_MAX_BYTES = 8190
HEAD_MAX_BYTES = 128 * 1024
HEAD_MAX_FIELDS = 100
PIPELINED_MAX_REQUESTS = 128
EARLY_MAX_BYTES = 64 * 1024


@dataclass
class ConnectionLimits:
    """What the connections of a process share."""

    head_seconds: float = 30
    incomplete_heads_per_address: int = 0
    trusted_proxies: tuple = ()
    incomplete_heads: Counter = field(default_factory=Counter)

    def is_exempt(self, address):
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return True
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self.trusted_proxies)

    def count_head(self, address):
        """Count a connection with an incomplete head. Return whether its address may have so many."""
        self.incomplete_heads[address] += 1
        return self.incomplete_heads[address] <= self.incomplete_heads_per_address

    def forget_head(self, address):
        self.incomplete_heads[address] -= 1
        if not self.incomplete_heads[address]:
            del self.incomplete_heads[address]

"""Looking up the IPv4 addresses of host names within a short time, because tasks wait for it."""

import contextlib
import ipaddress
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

import structlog

log = structlog.get_logger()

LOOKUP_SECONDS = 2.0
"""Seconds that a caller waits for all its names. An answer that comes later counts for the next caller."""

NAME_CACHE_SECONDS = 60.0
LOOKUP_THREADS = 8
resolved_names: dict[str, tuple[float, list[str]]] = {}
"""Addresses of host names, and until when they count. A name that cannot be resolved later has its last addresses."""

executor = ThreadPoolExecutor(LOOKUP_THREADS, "host-names")
lookups: dict[str, object] = {}
"""The latest lookup of each name. A resolver that does not answer is asked once at a time."""
lookups_lock = threading.Lock()


def resolve(*names):
    """Return the IPv4 addresses of host names and addresses, in this order. All are looked up at the same time."""
    outdated = [name for name in names if find_addresses(name) is None]
    if outdated:
        waiting = wait([request_lookup(name) for name in outdated], LOOKUP_SECONDS).not_done
        for name in outdated:
            if lookups[name] in waiting:
                record(name, None, "no answer in time")
    return [address for name in names for address in find_addresses(name, even_outdated=True)]


def find_addresses(name, *, even_outdated=False):
    """Return the known addresses, or None when the name has to be looked up."""
    with contextlib.suppress(ValueError):
        return [name] if ipaddress.ip_address(name).version == 4 else []
    expires_at, addresses = resolved_names.get(name, (0.0, []))
    return addresses if even_outdated or time.monotonic() < expires_at else None


def request_lookup(name):
    with lookups_lock:
        lookup = lookups.get(name)
        if lookup is None or lookup.done():
            lookup = lookups[name] = executor.submit(query_resolver, name)
        return lookup


def query_resolver(name):
    try:
        infos = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
        record(name, sorted({info[4][0] for info in infos}))
    except (OSError, UnicodeError) as error:
        record(name, None, str(error))


def record(name, addresses, problem=None):
    """Record addresses, or that the last ones count for longer."""
    if addresses is None:
        log.info("host_name_unresolved", name=name, detail=problem)
        addresses = resolved_names.get(name, (0.0, []))[1]
    resolved_names[name] = time.monotonic() + NAME_CACHE_SECONDS, addresses

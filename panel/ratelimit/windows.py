"""How often somebody may do something: sliding windows, of one minute unless it is said.

Redis counts for all web processes together. While it is away each process counts by itself and the requests go on: a
panel that nobody may use because its counter is lost would be worse than one that counts too generously.
"""

import ipaddress
import math
import threading
import time
from typing import NamedTuple

import structlog
from limits import RateLimitItemPerMinute
from limits.storage import RedisStorage
from redis import RedisError
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError
from redis.retry import Retry

log = structlog.get_logger()

MINUTE = 60
PAUSE = 5
"""Seconds in which a Redis that did not answer is not asked again."""
MAX_LOCAL_WINDOWS = 100_000
"""Keys that one process counts at most while Redis is away."""
PATIENCE = 0.25
"""Seconds that a request waits for Redis at most: then it is counted here."""


class Window(NamedTuple):
    """What one hit found: whether it was within the limit, how many more are, and the whole seconds until there is
    room for one more than now."""

    allowed: bool
    remaining: int
    reset: int
    read: bytes | None = None
    """What Redis holds under the key that was to be read on the way."""


class Shared(RedisStorage):
    """Counts in Redis. Taking a place and reading the window are one trip there, where the library makes two."""

    def take(self, key, most, seconds, reading=None):
        keys = [self.prefixed_key(self._previous_window_key(key)), self.prefixed_key(self._current_window_key(key))]
        trip = self.storage.pipeline(transaction=False)
        trip.evalsha(self.lua_acquire_sliding_window.sha, 2, *keys, most, seconds, 1)
        trip.evalsha(self.lua_sliding_window.sha, 2, *keys, seconds)
        if reading:
            trip.get(reading)
        try:
            taken, (previous, previous_left, current, current_left), *read = trip.execute()
        except NoScriptError:  # a new Redis: the library's own calls teach it
            return self.acquire_sliding_window_entry(key, most, seconds), *self.get_sliding_window(key, seconds), None
        lefts = max(0, previous_left) / 1000, max(0, current_left) / 1000
        return bool(taken), int(previous or 0), lefts[0], int(current or 0), lefts[1], read[0] if read else None


class Alone:
    """Counts in this process. The library's storage would start a thread for every hit, to forget old ones."""

    def __init__(self):
        self.now = time.time
        self.lock, self.windows = threading.Lock(), {}
        """By key: the window's number, the hits in it and in the one before, and when they stop to count."""

    def take(self, key, most, seconds):
        now = self.now()
        number, passed = divmod(now, seconds)
        with self.lock:
            last, used, before, _ = self.windows.get(key, (number, 0, 0, 0))
            if last != number:
                used, before = 0, used if last == number - 1 else 0
            left = seconds - passed if before else 0.0
            taken = math.floor(before * left / seconds + used) < most
            used += taken
            self.windows[key] = number, used, before, now + seconds - passed + seconds
            if len(self.windows) > MAX_LOCAL_WINDOWS:
                self.forget_old(now)
        return taken, before, left, used, 2 * seconds - passed, None

    def forget_old(self, now):
        kept = {key: window for key, window in self.windows.items() if window[3] > now}
        self.windows = kept if len(kept) < MAX_LOCAL_WINDOWS / 2 else {}

    def reset(self):
        self.windows.clear()


shared: Shared | None = None
alone = Alone()
away_until = told_at = -math.inf


def connect(redis_url):
    """Names the Redis that counts; with an empty address this process counts by itself. Starts with empty windows."""
    global shared, away_until
    away_until = -math.inf
    alone.reset()
    waits = {"socket_timeout": PATIENCE, "socket_connect_timeout": PATIENCE, "retry": Retry(NoBackoff(), 0)}
    shared = Shared(redis_url, **waits) if redis_url else None


def hit(name, key, most, seconds=MINUTE, reading=None) -> Window:
    """Counts one use of the budget `name` by `key` (a token's id, an address) and says whether it was within `most` in
    `seconds`. A refused one is not counted. `reading` is a key of Redis whose value comes along."""
    taken, previous, previous_left, current, current_left, read = take(
        RateLimitItemPerMinute(most).key_for(name, str(key)), most, seconds, reading
    )
    used = math.floor(previous * previous_left / seconds) + current
    frees = [previous_left % (seconds / previous)] if previous else []
    frees += [current_left - seconds] if current else []
    return Window(taken, max(0, most - used), min(seconds, int(min(frees, default=0)) + 1), read)


def take(key, most, seconds, reading):
    found = trying(lambda: shared.take(key, most, seconds, reading))
    return found or alone.take(key, most, seconds)


def read(key, otherwise=None):
    """What Redis holds under the key; `otherwise` is put there if that is nothing. None while Redis is away."""
    if otherwise:
        trying(lambda: shared.storage.set(key, otherwise, nx=True))
    return trying(lambda: shared.storage.get(key))


def trying(ask):
    """What Redis answers, or None while it is away."""
    global away_until
    if shared and time.monotonic() >= away_until:
        try:
            return ask()
        except (RedisError, OSError) as error:
            away_until = time.monotonic() + PAUSE
            tell(error)
    return None


def neighbourhood(address):
    """Whom an IP address is counted with: of IPv6 the /64, because every line has that many."""
    return str(address) if address.version == 4 else str(ipaddress.IPv6Address(int(address) >> 64 << 64))


def tell(error):
    """Once a minute: a lost Redis is asked for again and again."""
    global told_at
    if time.monotonic() - told_at >= MINUTE:
        told_at = time.monotonic()
        log.warning("limits_counted_here", error=str(error))

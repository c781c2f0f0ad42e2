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

MINUTE_SECONDS = 60
REDIS_RETRY_SECONDS = 5
"""Seconds in which a Redis that did not answer is not asked again."""
MAX_LOCAL_WINDOWS = 100_000
"""Keys that one process counts at most while Redis is away."""
REDIS_TIMEOUT_SECONDS = 0.25
"""Seconds that a request waits for Redis at most: then it is counted here."""


class WindowState(NamedTuple):
    """What one hit found: whether it was within the limit, how many more are, and the whole seconds until there is
    room for one more than now."""

    allowed: bool
    remaining: int
    reset: int
    read: bytes | None = None
    """What Redis holds under the key that was to be read on the way."""


class RedisWindow(RedisStorage):
    """Counts in Redis. Taking a place and reading the window are one trip there, where the library makes two."""

    def take(self, key, maximum, seconds, read_key=None):
        keys = [self.prefixed_key(self._previous_window_key(key)), self.prefixed_key(self._current_window_key(key))]
        trip = self.storage.pipeline(transaction=False)
        trip.evalsha(self.lua_acquire_sliding_window.sha, 2, *keys, maximum, seconds, 1)
        trip.evalsha(self.lua_sliding_window.sha, 2, *keys, seconds)
        if read_key:
            trip.get(read_key)
        try:
            taken, (previous, previous_left, current, current_left), *read = trip.execute()
        except NoScriptError:  # a new Redis: the library's own calls teach it
            return (
                self.acquire_sliding_window_entry(key, maximum, seconds),
                *self.get_sliding_window(key, seconds),
                None,
            )
        lefts = max(0, previous_left) / 1000, max(0, current_left) / 1000
        return bool(taken), int(previous or 0), lefts[0], int(current or 0), lefts[1], read[0] if read else None


class LocalWindow:
    """Counts in this process. The library's storage would start a thread for every hit, to forget old ones."""

    def __init__(self):
        self.now = time.time
        self.lock, self.windows = threading.Lock(), {}
        """By key: the window's number, the hits in it and in the one before, and when they stop to count."""

    def take(self, key, maximum, seconds):
        now = self.now()
        number, passed = divmod(now, seconds)
        with self.lock:
            last, used, before, _ = self.windows.get(key, (number, 0, 0, 0))
            if last != number:
                used, before = 0, used if last == number - 1 else 0
            left = seconds - passed if before else 0.0
            taken = math.floor(before * left / seconds + used) < maximum
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


redis_window: RedisWindow | None = None
local_window = LocalWindow()
circuit_open_until = last_warning_at = -math.inf


def connect(redis_url):
    """Names the Redis that counts; with an empty address this process counts by itself. Starts with empty windows."""
    global redis_window, circuit_open_until
    circuit_open_until = -math.inf
    local_window.reset()
    waits = {
        "socket_timeout": REDIS_TIMEOUT_SECONDS,
        "socket_connect_timeout": REDIS_TIMEOUT_SECONDS,
        "retry": Retry(NoBackoff(), 0),
    }
    redis_window = RedisWindow(redis_url, **waits) if redis_url else None


def hit(name, key, maximum, seconds=MINUTE_SECONDS, read_key=None) -> WindowState:
    """Counts one use of the budget `name` by `key` (a token's id, an address) and says whether it was within `most` in
    `seconds`. A refused one is not counted. `reading` is a key of Redis whose value comes along."""
    taken, previous, previous_left, current, current_left, read = acquire(
        RateLimitItemPerMinute(maximum).key_for(name, str(key)), maximum, seconds, read_key
    )
    used = math.floor(previous * previous_left / seconds) + current
    frees = [previous_left % (seconds / previous)] if previous else []
    frees += [current_left - seconds] if current else []
    return WindowState(taken, max(0, maximum - used), min(seconds, int(min(frees, default=0)) + 1), read)


def acquire(key, maximum, seconds, read_key):
    found = try_redis(lambda: redis_window.take(key, maximum, seconds, read_key))
    return found or local_window.take(key, maximum, seconds)


def get(key, default=None):
    """What Redis holds under the key; `otherwise` is put there if that is nothing. None while Redis is away."""
    if default:
        try_redis(lambda: redis_window.storage.set(key, default, nx=True))
    return try_redis(lambda: redis_window.storage.get(key))


def try_redis(operation):
    """What Redis answers, or None while it is away."""
    global circuit_open_until
    if redis_window and time.monotonic() >= circuit_open_until:
        try:
            return operation()
        except (RedisError, OSError) as error:
            circuit_open_until = time.monotonic() + REDIS_RETRY_SECONDS
            log_once_a_minute(error)
    return None


def rate_limit_network(address):
    """Whom an IP address is counted with: of IPv6 the /64, because every line has that many."""
    return str(address) if address.version == 4 else str(ipaddress.IPv6Address(int(address) >> 64 << 64))


def log_once_a_minute(error):
    """Once a minute: a lost Redis is asked for again and again."""
    global last_warning_at
    if time.monotonic() - last_warning_at >= MINUTE_SECONDS:
        last_warning_at = time.monotonic()
        log.warning("limits_counted_here", error=str(error))

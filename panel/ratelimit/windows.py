"""Rate limits with sliding windows, by default of one minute.

Redis counts for all web processes together. While it is unavailable, each process counts on its own, so that requests
are still served; the limits are less strict then.
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

from panel.core import context

log = structlog.get_logger()

MINUTE_SECONDS = 60
REDIS_RETRY_SECONDS = 5
"""How long Redis is not called again after an error."""
MAX_LOCAL_WINDOWS = 100_000
"""The most keys that one process counts while Redis is unavailable."""
REDIS_TIMEOUT_SECONDS = 0.25
"""How long a request waits for Redis before it is counted in this process."""


class WindowState(NamedTuple):
    """The result of one hit: whether it was allowed, how many more are allowed, and the whole seconds until at least
    one more is."""

    allowed: bool
    remaining: int
    reset: int
    read: bytes | None = None
    """The value of `read_key` in Redis."""


class RedisWindow(RedisStorage):
    """Counts in Redis. Acquires a hit and reads the window in one round trip; the library needs two."""

    def take(self, key, maximum, seconds, read_key=None):
        keys = [self.prefixed_key(self._previous_window_key(key)), self.prefixed_key(self._current_window_key(key))]
        pipeline = self.storage.pipeline(transaction=False)
        pipeline.evalsha(self.lua_acquire_sliding_window.sha, 2, *keys, maximum, seconds, 1)
        pipeline.evalsha(self.lua_sliding_window.sha, 2, *keys, seconds)
        if read_key:
            pipeline.get(read_key)
        try:
            is_allowed, (previous, previous_left, current, current_left), *values = pipeline.execute()
        except NoScriptError:  # a new Redis: the library's own calls load the scripts
            return (
                self.acquire_sliding_window_entry(key, maximum, seconds),
                *self.get_sliding_window(key, seconds),
                None,
            )
        seconds_left = max(0, previous_left) / 1000, max(0, current_left) / 1000
        return (
            bool(is_allowed),
            int(previous or 0),
            seconds_left[0],
            int(current or 0),
            seconds_left[1],
            values[0] if values else None,
        )


class LocalWindow:
    """Counts in this process. The library's own memory storage would start a thread for every hit."""

    def __init__(self):
        self.now = time.time
        self.lock, self.windows = threading.Lock(), {}
        """By key: (number of the window, hits in it, hits in the previous one, time from which neither counts)."""

    def take(self, key, maximum, seconds):
        now = self.now()
        number, elapsed = divmod(now, seconds)
        with self.lock:
            last_number, current, previous, _ = self.windows.get(key, (number, 0, 0, 0))
            if last_number != number:
                current, previous = 0, current if last_number == number - 1 else 0
            previous_left = seconds - elapsed if previous else 0.0
            is_allowed = math.floor(previous * previous_left / seconds + current) < maximum
            current += is_allowed
            self.windows[key] = number, current, previous, now + seconds - elapsed + seconds
            if len(self.windows) > MAX_LOCAL_WINDOWS:
                self.forget_old(now)
        return is_allowed, previous, previous_left, current, 2 * seconds - elapsed, None

    def forget_old(self, now):
        active = {key: window for key, window in self.windows.items() if window[3] > now}
        self.windows = active if len(active) < MAX_LOCAL_WINDOWS / 2 else {}


class RateLimits:
    """The windows of one process: those in Redis, and its own while Redis is unavailable. Without a URL, only its
    own."""

    def __init__(self, redis_url):
        self.redis = RedisWindow(redis_url, **redis_options()) if redis_url else None
        self.local = LocalWindow()
        self.circuit_open_until = self.last_warning_at = -math.inf

    def try_redis(self, operation):
        """Return the result of a call of the Redis window, or None while Redis is unavailable."""
        if self.redis and time.monotonic() >= self.circuit_open_until:
            try:
                return operation(self.redis)
            except (RedisError, OSError) as error:
                self.circuit_open_until = time.monotonic() + REDIS_RETRY_SECONDS
                self.log_once_a_minute(error)
        return None

    def log_once_a_minute(self, error):
        """Log that Redis is unavailable, at most once a minute."""
        if time.monotonic() - self.last_warning_at >= MINUTE_SECONDS:
            self.last_warning_at = time.monotonic()
            log.warning("limits_counted_here", error=str(error))


def redis_options():
    timeouts = {"socket_timeout": REDIS_TIMEOUT_SECONDS, "socket_connect_timeout": REDIS_TIMEOUT_SECONDS}
    return timeouts | {"retry": Retry(NoBackoff(), 0)}


def hit(name, key, maximum, seconds=MINUTE_SECONDS, read_key=None) -> WindowState:
    """Count one use of the budget `name` by `key` (a token's id, an address). At most `maximum` are allowed in
    `seconds`; refused ones are not counted. `read_key` is a key of Redis whose value is returned too."""
    is_allowed, previous, previous_left, current, current_left, value = acquire(
        RateLimitItemPerMinute(maximum).key_for(name, str(key)), maximum, seconds, read_key
    )
    used = math.floor(previous * previous_left / seconds) + current
    waits = [previous_left % (seconds / previous)] if previous else []
    waits += [current_left - seconds] if current else []
    return WindowState(is_allowed, max(0, maximum - used), min(seconds, int(min(waits, default=0)) + 1), value)


def acquire(key, maximum, seconds, read_key):
    limits = context.current().rate_limits
    result = limits.try_redis(lambda redis: redis.take(key, maximum, seconds, read_key))
    return result or limits.local.take(key, maximum, seconds)


def get(key, default=None):
    """Return the value of a key in Redis, or None while Redis is unavailable. With a `default`, a missing key is set to
    it first."""
    limits = context.current().rate_limits
    if default:
        limits.try_redis(lambda redis: redis.storage.set(key, default, nx=True))
    return limits.try_redis(lambda redis: redis.storage.get(key))


def rate_limit_network(address):
    """Return the key by which an IP address is counted: for IPv6 its /64 network, which one customer usually has."""
    return str(address) if address.version == 4 else str(ipaddress.IPv6Address(int(address) >> 64 << 64))

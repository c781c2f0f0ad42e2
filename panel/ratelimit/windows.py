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
from redis import Redis, RedisError
from redis.backoff import NoBackoff
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


HIT_SCRIPT = """
local maximum, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000

local function read(key)
    return tonumber(redis.call('get', key) or 0), math.max(0, redis.call('pttl', key))
end

local current, current_left = read(KEYS[2])
if current_left > 0 and current_left < window then
    redis.call('rename', KEYS[2], KEYS[1])
    redis.call('set', KEYS[2], 0, 'PX', current_left + window)
    current, current_left = read(KEYS[2])
end
local previous, previous_left = read(KEYS[1])
local is_allowed = math.floor(previous * previous_left / window) + current < maximum
if is_allowed and current_left > 0 then
    current = redis.call('incr', KEYS[2])
elseif is_allowed then
    redis.call('set', KEYS[2], 1, 'PX', 2 * window)
    current, current_left = 1, 2 * window
end
local value = KEYS[3] and redis.call('get', KEYS[3])
return {is_allowed and 1 or 0, previous, previous_left, current, current_left, value or false}
"""
"""Counts a hit in the window before (KEYS[1]) and the present one (KEYS[2]), and reads KEYS[3] if it is given. The key
of a window lives for twice its length: when less than one length is left, it is the window before."""


class RedisWindow:
    """Counts in Redis, in one round trip."""

    def __init__(self, redis_url):
        self.client = Redis.from_url(redis_url, **get_redis_options())
        self.script = self.client.register_script(HIT_SCRIPT)

    def count_use(self, key, maximum, seconds, read_key=None):
        keys = [f"panel:hits:{key}:before", f"panel:hits:{key}", *([read_key] if read_key else ())]
        is_allowed, previous, previous_left, current, current_left, value = self.script(keys, [maximum, seconds])
        return bool(is_allowed), previous, previous_left / 1000, current, current_left / 1000, value


class LocalWindow:
    """Counts in this process."""

    def __init__(self):
        self.now = time.time
        self.lock, self.windows = threading.Lock(), {}
        """By key: (number of the window, hits in it, hits in the previous one, time from which neither counts)."""

    def count_use(self, key, maximum, seconds):
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
        self.redis = RedisWindow(redis_url) if redis_url else None
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
            log.warning("rate_limits_counted_in_process", error=str(error))


def get_redis_options():
    timeouts = {"socket_timeout": REDIS_TIMEOUT_SECONDS, "socket_connect_timeout": REDIS_TIMEOUT_SECONDS}
    return timeouts | {"retry": Retry(NoBackoff(), 0)}


def count_use(name, key, maximum, seconds=MINUTE_SECONDS, read_key=None) -> WindowState:
    """Count one use of the budget `name` by `key` (a token's id, an address). At most `maximum` are allowed in
    `seconds`; refused ones are not counted. `read_key` is a key of Redis whose value is returned too."""
    is_allowed, previous, previous_left, current, current_left, value = acquire(
        f"{name}:{key}:{maximum}", maximum, seconds, read_key
    )
    used = math.floor(previous * previous_left / seconds) + current
    waits = [previous_left % (seconds / previous)] if previous else []
    waits += [current_left - seconds] if current else []
    return WindowState(is_allowed, max(0, maximum - used), min(seconds, int(min(waits, default=0)) + 1), value)


def acquire(key, maximum, seconds, read_key):
    limits = context.current().rate_limits
    result = limits.try_redis(lambda redis: redis.count_use(key, maximum, seconds, read_key))
    return result or limits.local.count_use(key, maximum, seconds)


def get(key, default=None):
    """Return the value of a key in Redis, or None while Redis is unavailable. With a `default`, a missing key is set to
    it first."""
    limits = context.current().rate_limits
    if default:
        limits.try_redis(lambda redis: redis.client.set(key, default, nx=True))
    return limits.try_redis(lambda redis: redis.client.get(key))


def get_rate_limit_network(address):
    """Return the key by which an IP address is counted: for IPv6 its /64 network, which one customer usually has."""
    return str(address) if address.version == 4 else str(ipaddress.IPv6Address(int(address) >> 64 << 64))

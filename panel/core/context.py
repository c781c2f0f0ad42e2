"""What a process has once: its configuration, and the clients, keys and caches that are made from it.

`panel.bootstrap` makes it, for web processes, workers and commands alike.
"""

import math
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cryptography.fernet import MultiFernet
from redis import Redis

from panel.core.config import Config

REDIS_PAUSE_SECONDS = 5
"""How long Redis is not asked again after an error."""


@dataclass
class Context:
    config: Config
    encryption: MultiFernet
    """Encrypts the values of `EncryptedText` columns."""
    redis: Redis
    """For notifications, and for facts that workers write into rows later."""
    rate_limits: Any
    """A `panel.ratelimit.windows.RateLimits`."""
    redis_paused_until: float = -math.inf
    can_notify: bool = True
    """False in commands during which no worker can run; notifications are then skipped."""

    cached_settings: tuple = (0, None)
    """Expiry (monotonic) and settings. Replaced as one tuple, because threads read it concurrently."""
    cached_brands: tuple = (0, None)
    """Expiry (monotonic) and the brands by host name."""
    cached_platform_curves: tuple = (0, None)
    """Expiry (monotonic) and a `panel.services.metrics.hosts.PlatformCurves`."""
    cached_tokens: dict[str, Any] = field(default_factory=dict)
    """By hash: a `panel.services.token_cache.CachedToken`."""
    cached_exports: dict[str, Any] = field(default_factory=dict)
    """By view: a `panel.services.metrics.export.AccountExport`."""
    large_totals: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    """By statement and parameters: the number of rows and its expiry (monotonic)."""
    recorded_token_uses: dict[str, datetime] = field(default_factory=dict)
    recorded_session_uses: dict[str, datetime] = field(default_factory=dict)
    """By id: when this process last recorded a use."""
    marked_instances: dict[str, float] = field(default_factory=dict)
    """By id: when this process last marked the instance as watched (monotonic)."""

    task_pool: Any = None
    """The worker's `worker.engine.pool.TaskPool`."""
    dispatcher: Any = None
    """The worker's `worker.webhooks.dispatcher.Dispatcher`."""
    is_stopping: bool = False
    """Whether the worker received a signal to stop."""

    def is_redis_paused(self) -> bool:
        return time.monotonic() < self.redis_paused_until

    def pause_redis(self) -> None:
        """After an error, keep requests from waiting for Redis to note something that can be lost."""
        self.redis_paused_until = time.monotonic() + REDIS_PAUSE_SECONDS


_current: Context | None = None


def current() -> Context:
    """Return the context of this process, which must have been made."""
    return _current  # type: ignore[return-value]  # made at the start of the process


def set_current(context: Context | None) -> None:
    global _current
    _current = context

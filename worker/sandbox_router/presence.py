"""Noticing a second router: two would take the channels of sandboxes from each other, in turn."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import structlog
from redis.exceptions import RedisError

from panel.core.config import Config
from panel.services import workers

log = structlog.get_logger()


@contextlib.contextmanager
def publish_presence(config: Config) -> Iterator[None]:
    """Record in Redis that this router is alive, and log when it is not the only one. It works while Redis is away."""
    name = f"{socket.gethostname()} {config.sandbox_bind}"
    stopped = threading.Event()
    thread = threading.Thread(target=run_heartbeat, args=(name, stopped), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(workers.HEARTBEAT_INTERVAL.total_seconds())


def run_heartbeat(name: str, stopped: threading.Event) -> None:
    others: list[str] = []
    while not stopped.is_set():
        with contextlib.suppress(RedisError, OSError):
            workers.record_heartbeat(name, workers.ROUTERS_KEY)
            before, others = others, find_others(name)
            if others and others != before:
                log.error("sandbox_router_not_alone", others=others)
        stopped.wait(workers.HEARTBEAT_INTERVAL.total_seconds())
    with contextlib.suppress(RedisError, OSError):
        workers.remove(name, workers.ROUTERS_KEY)


def find_others(name: str) -> list[str]:
    return [other for other in workers.list_alive(workers.ROUTERS_KEY) if other != name]

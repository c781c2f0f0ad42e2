"""The worker and schedule processes."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from types import FrameType
from typing import Any

import structlog
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import SimpleWorker

import worker.sync
import worker.tasks
import worker.webhooks
from panel.bootstrap import create_worker_app
from panel.core import context, jobs
from panel.core.config import Config, ConfigError
from panel.core.db import generate_id
from panel.core.logs import setup_logging
from panel.core.modules import import_modules
from panel.services import workers
from worker.engine import pool, purge, reaper
from worker.engine.application import Application
from worker.engine.registry import TASK_TYPES
from worker.engine.scheduler import Scheduler
from worker.webhooks import dispatcher

log = structlog.get_logger()

HANDLER_MODULES = (*import_modules(worker.tasks), *import_modules(worker.sync), worker.webhooks, purge)
"""Modules that register task handlers and periodic jobs when they are imported."""

LISTENER_REDIS_TIMEOUT_SECONDS = 30
"""Seconds without an answer after which a listener reconnects to Redis."""


def prepare_app(config: Config) -> Application:
    """Set up what every process that talks to nodes needs: logging, context, database."""
    setup_logging(config.json_logs)
    return create_worker_app(config)


def run_worker(
    config: Config,
    check: Callable[[Any], Application] = lambda app: app,
    name: str | None = None,
    replaced_names: Collection[str] = (),
) -> None:
    """Run tasks until a signal, then finish the running ones. A second signal ends the process at once.

    Another worker runs an interrupted task again. `check` raises ConfigError when the process must not use the
    database. `replaced_names` are names of workers whose processes have ended.
    """
    app = check(prepare_app(config))
    task_pool = context.current().task_pool = pool.TaskPool(app, config.worker_threads, name=name)
    webhooks = context.current().dispatcher = dispatcher.Dispatcher(app).start()
    stopped = threading.Event()
    liveness = threading.Thread(target=publish_liveness, args=(task_pool.worker, stopped), name="alive", daemon=True)
    liveness.start()
    log.info("worker_started", kinds=len(TASK_TYPES), threads=config.worker_threads)
    reaper.requeue_replaced(app, replaced_names)
    listen(config.redis_url)
    install_signal_handlers(lambda *_: os._exit(1))  # threads that wait for a node cannot be interrupted
    log.info("worker_stopping", tasks=len(task_pool.active_claims))
    webhooks.shutdown()
    task_pool.shutdown()
    stopped.set()
    liveness.join()


class Listener(SimpleWorker):
    """RQ's worker with a short pause between attempts to reconnect to Redis."""

    max_connection_wait_time = 2.0

    def procline(self, message: str) -> None:
        """Keep the title of the process, which names its command."""

    def handle_warm_shutdown_request(self) -> None:
        request_stop()


def request_stop(*_: object) -> None:
    context.current().is_stopping = True


def listen(redis_url: str) -> None:
    """Submit notifications to the pool until a signal.

    RQ's worker may end when the connection to Redis breaks, so a new listener replaces it. The listener has its own
    connection because RQ sets a longer timeout on it.
    """
    connection = Redis.from_url(redis_url, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))
    options: dict[str, Any] = {
        "connection": connection,
        "serializer": "json",
        "worker_ttl": LISTENER_REDIS_TIMEOUT_SECONDS,
    }
    while not context.current().is_stopping:
        install_signal_handlers(request_stop)
        try:
            Listener([jobs.queue().name], name=f"panel-{generate_id()}", **options).work(logging_level="WARNING")
        except (RedisError, OSError) as error:
            log.warning("worker_waits_for_redis", error=str(error))
        if not context.current().is_stopping:
            time.sleep(1)


def install_signal_handlers(call: Callable[[int, FrameType | None], object]) -> None:
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, call)


def publish_liveness(name: str, stopped: threading.Event) -> None:
    while not stopped.is_set():
        with suppress(RedisError, OSError):  # the listener logs it
            workers.record_heartbeat(name)
        stopped.wait(workers.HEARTBEAT_INTERVAL.total_seconds())
    with suppress(RedisError, OSError):
        workers.remove(name)


def run_scheduler(config: Config, check: Callable[[Any], Application] = lambda app: app) -> None:
    """Run periodic jobs and node watchers until SIGTERM."""
    Scheduler(check(prepare_app(config))).run()


def run_and_exit(function: Callable[..., None], *args: Any) -> None:
    """Run a process's main function and end the process with `os._exit`.

    Python's own shutdown could block for ever on locks of threads that wait for a node or for Redis.
    """
    status = 1
    try:
        function(*args)
        status = 0
    except ConfigError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
    except Exception:
        log.exception("process_crashed")
    finally:
        logging.shutdown()
        os._exit(status)

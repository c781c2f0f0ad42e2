"""The worker and schedule processes."""

import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress

import structlog
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import SimpleWorker

from panel.core import jobs, mail
from panel.core.config import Config, ConfigError
from panel.core.db import bare_app, new_id
from panel.core.logs import setup
from panel.services import workers
from panel.services.webhooks import url_policy
from worker.engine import pool
from worker.engine.scheduler import Schedule
from worker.sync import guest_agents, node_sync, unmanaged_machines
from worker.tasks import (
    certificates,
    consoles,
    disks,
    docker_deployments,
    firewall,
    forges,
    hardware_options,
    image_captures,
    imports,
    instances,
    media_downloads,
    migrations,
    optical_drives,
    plans,
    reinstall,
    rescue,
    self_deploy,
    snapshots,
    volumes,
)
from worker.webhooks import dispatcher

log = structlog.get_logger()

BODIES = (
    instances,
    consoles,
    unmanaged_machines,
    imports,
    reinstall,
    guest_agents,
    forges,
    plans,
    disks,
    docker_deployments,
    hardware_options,
    firewall,
    media_downloads,
    optical_drives,
    snapshots,
    volumes,
    rescue,
    self_deploy,
    image_captures,
    certificates,
    migrations,
)
"""The modules whose tasks a worker knows."""

PATIENCE = 30
"""Seconds after which a listener hangs up on a Redis that went silent, and calls again."""


def prepare(config: Config):
    """What every process that talks to nodes needs: database, queue, a place for drivers' own files."""
    setup(config.json_logs)
    jobs.connect(config.redis_url)
    mail.configure(config)
    url_policy.configure(config)
    node_sync.data_dir = config.data_dir
    return bare_app(config)


def work(config: Config, check=lambda app: app):
    """Hears bells until a signal, then finishes what is in hand. A second one drops it: another worker begins anew.
    `check` raises ConfigError when the process must not use the database."""
    app = check(prepare(config))
    mine = pool.hands = pool.Hands(app, config.worker_threads)
    dispatcher.sender = dispatcher.Sender(app).start()
    ended = threading.Event()
    alive = threading.Thread(target=say_alive, args=(mine.worker, ended), name="alive", daemon=True)
    alive.start()
    log.info("worker_started", bodies=len(BODIES), threads=config.worker_threads)
    listen(config.redis_url)
    on_signal(lambda *_: os._exit(1))  # threads that wait for a node cannot be interrupted
    log.info("worker_finishes", tasks=len(mine.holding))
    dispatcher.sender.put_down()
    mine.put_down()
    ended.set()
    alive.join()


class Listener(SimpleWorker):
    """RQ's worker, patient with Redis."""

    max_connection_wait_time = 2.0

    def handle_warm_shutdown_request(self):
        stop()


asked_to_stop = False


def stop(*_):
    global asked_to_stop
    asked_to_stop = True


def listen(redis_url):
    """Passes bells on until a signal. RQ gives up when it loses Redis at a wrong moment; a new listener takes over.
    Their connection is their own, because RQ lets it wait longer than others may."""
    connection = Redis.from_url(redis_url, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))
    options = {"connection": connection, "serializer": "json", "worker_ttl": PATIENCE}
    while not asked_to_stop:
        on_signal(stop)
        try:
            Listener([jobs.queue().name], name=f"panel-{new_id()}", **options).work(logging_level="WARNING")
        except (RedisError, OSError) as error:
            log.warning("worker_waits_for_redis", error=str(error))
        if not asked_to_stop:
            time.sleep(1)


def on_signal(call):
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, call)


def say_alive(name, ended):
    while not ended.is_set():
        with suppress(RedisError, OSError):  # the listener tells people
            workers.heard(name)
        ended.wait(workers.BEAT.total_seconds())
    with suppress(RedisError, OSError):
        workers.left(name)


def schedule(config: Config, check=lambda app: app):
    """Rings what is due and listens to nodes until SIGTERM."""
    Schedule(check(prepare(config))).run()


def run(part, *given):
    """Runs a part to its end and leaves at once. Python's own end would wait for locks that threads held when they were
    stopped, for a node or for Redis, and so for ever."""
    status = 1
    try:
        part(*given)
        status = 0
    except ConfigError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
    except Exception:
        log.exception("process_crashed")
    finally:
        logging.shutdown()
        os._exit(status)

"""The worker and schedule processes."""

import structlog
from rq import SimpleWorker

from panel import jobs
from panel.config import Config
from panel.db import bare_app, new_id
from panel.logs import setup
from worker import hands, hypervisors, instances
from worker.schedule import Schedule

log = structlog.get_logger()

BODIES = (instances,)
"""The modules whose tasks a worker knows."""


def prepare(config: Config):
    """What every process that talks to nodes needs: database, queue, a place for drivers' own files."""
    setup(config.json_logs)
    jobs.connect(config.redis_url)
    hypervisors.data_dir = config.data_dir
    return bare_app(config)


def work(config: Config):
    """Hears bells until SIGTERM, then finishes what is in hand."""
    app = prepare(config)
    hands.hands = hands.Hands(app, config.worker_threads)
    hands.hands.give("worker.sweep.sweep")
    listener = SimpleWorker([jobs.queue()], connection=jobs.connection, name=f"panel-{new_id()}", serializer="json")
    log.info("worker_ready", bodies=len(BODIES), threads=config.worker_threads)
    listener.work(logging_level="WARNING")
    hands.hands.put_down()


def schedule(config: Config):
    """Rings what is due and listens to nodes until SIGTERM."""
    Schedule(prepare(config)).run()

"""Health checks for load balancers and supervisors: /healthz (the process is alive) and /readyz (it can serve)."""

from flask import Blueprint, current_app
from redis import RedisError

from panel.core import context
from panel.core.database_probe import get_probe
from panel.services import workers

bp = Blueprint("health", __name__)
OK_RESPONSE = "ok"


@bp.get("/healthz")
def healthz():
    """Answer without checking dependencies, so that a lost database does not cause restarts."""
    return {"status": OK_RESPONSE}


@bp.get("/readyz")
def readyz():
    """Return the state of database, Redis and workers: 200 when requests and their tasks can be served, else 503."""
    parts = {"database": get_database_state(), "redis": get_redis_state(), "workers": get_workers_state()}
    ready = all(state == OK_RESPONSE for state in parts.values())
    return {"status": OK_RESPONSE if ready else "not ready", "parts": parts}, 200 if ready else 503


def get_database_state():
    """Return the result of the last write probe, which is some seconds old at most."""
    return get_probe(current_app).state()


def get_redis_state():
    try:
        context.current().redis.ping()
    except (RedisError, OSError):
        return "does not answer"
    return OK_RESPONSE


def get_workers_state():
    try:
        return OK_RESPONSE if workers.count_alive() else "none is alive"
    except (RedisError, OSError):
        return "cannot be seen without Redis"


@bp.after_request
def disable_caching(response):
    response.headers["Cache-Control"] = "no-store"
    return response

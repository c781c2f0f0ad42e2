"""For load balancers and supervisors: is the process alive, and can the installation serve?"""

from flask import Blueprint, current_app
from redis import RedisError

from panel.core import jobs
from panel.core.database_probe import get_probe
from panel.services import workers

bp = Blueprint("health", __name__)
OK = "ok"


@bp.get("/healthz")
def healthz():
    """The process answers. Says nothing of what it depends on, so that nobody restarts it for a lost database."""
    return {"status": OK}


@bp.get("/readyz")
def readyz():
    """Whether requests and their tasks would be served now, and what is in the way."""
    parts = {"database": database_state(), "redis": redis_state(), "workers": workers_state()}
    ready = all(state == OK for state in parts.values())
    return {"status": OK if ready else "not ready", "parts": parts}, 200 if ready else 503


def database_state():
    """Whether this process could write to it, some seconds ago at most."""
    return get_probe(current_app).state()


def redis_state():
    try:
        jobs.connection.ping()
    except (RedisError, OSError):
        return "does not answer"
    return OK


def workers_state():
    try:
        return OK if workers.count_alive() else "none is alive"
    except (RedisError, OSError):
        return "cannot be seen without Redis"


@bp.after_request
def disable_caching(response):
    response.headers["Cache-Control"] = "no-store"
    return response

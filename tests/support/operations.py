"""The operations of the OpenAPI documents, and what calls of all of them need."""

import re

import pytest
from sqlalchemy import select

from api.docs import build_openapi_document
from panel.core import clock
from panel.core.db import session
from panel.models import Token
from panel.services import schedule_runs, tokens
from tests.support.cast import UNKNOWN_ID

SURFACES = ("USER", "ADMIN")


def find_operations(app, surface):
    for path, methods in build_openapi_document(app, surface)["paths"].items():
        for method, operation in methods.items():
            if "operationId" in operation:
                yield method.upper(), path, operation


def fill_path(path, ids=None):
    return re.sub(r"{(\w+)}", lambda match: (ids or {}).get(match[1], UNKNOWN_ID), path)


@pytest.fixture
def all_operations(app):
    return {surface: list(find_operations(app, surface)) for surface in SURFACES}


def find_token(cast, caller):
    return session.scalar(select(Token).where(Token.secret_hash == tokens.hash_secret(cast.tokens[caller])))


@pytest.fixture
def recorded_schedule(monkeypatch):
    """Stand in for Redis, where the scheduler records when it started each job."""
    run = {"at": clock.now().timestamp(), "seconds": 60, "runs_in": "worker", "error": None}
    monkeypatch.setattr(schedule_runs, "listing", lambda: [schedule_runs.describe("purge_tasks", run)])

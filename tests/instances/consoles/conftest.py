"""Sessions of screens and shells: minting them by both APIs, at the pages, and who may."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import ConsoleSession
from panel.services import instances
from panel.workflows import waiting
from tests.conftest import run_queued_calls

URL = "http://panel.example.com:8000"


@pytest.fixture
def set_public_url(rolled_back_app, monkeypatch):
    """Sets the address that people type."""

    def set_to(url):
        monkeypatch.setitem(
            rolled_back_app.extensions, "config", replace(rolled_back_app.extensions["config"], public_url=url)
        )

    set_to(URL)
    return set_to


@pytest.fixture
def running(cast, run_tasks, node, set_public_url):
    """A deployed instance that runs, with its guest up."""
    made = cast.instance()
    instances.deploy(made, image_id=cast.image.id, actor="owner@example.com")
    session.commit()
    run_tasks()
    before = node.options
    node.options = replace(before, boot_seconds=0)
    yield made
    node.options = before


@pytest.fixture
def inline_workers(monkeypatch):
    """Somebody works while a request waits."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())


def created_session(answer, who="owner"):
    assert answer.status_code == 200, answer.json
    return answer.json["data"] if who == "admin" else answer.json


def console_sessions():
    return session.scalars(select(ConsoleSession).execution_options(populate_existing=True)).all()


@pytest.fixture
def open_session(api_as, running, inline_workers):
    """A session that is open, as its row says."""

    def make(kind="screen", who="owner", row=None):
        if row is None:
            path = {"screen": "novnc", "shell": "webssh"}[kind]
            if who == "admin":
                path = path.replace("webssh", "ssh")
            created_session(
                api_as(who, "GET", f"/api{'/v1' if who == 'admin' else ''}/instance/{running.id}/{path}"), who
            )
            row = console_sessions()[-1]
        row.redeemed_at = row.seen_at = row.opened_at = clock.now()
        row.ip = "192.0.2.7"
        session.commit()
        return row

    return make

"""Sessions of screens and shells: minting them by both APIs, at the pages, and who may."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import ConsoleSession
from panel.services import instances
from tests.conftest import work_off

URL = "http://panel.example.com:8000"


@pytest.fixture
def address(world, monkeypatch):
    """Sets the address that people type."""

    def set_to(url):
        monkeypatch.setitem(world.extensions, "config", replace(world.extensions["config"], public_url=url))

    set_to(URL)
    return set_to


@pytest.fixture
def running(cast, work, node, address):
    """A deployed instance that runs, with its guest up."""
    made = cast.instance()
    instances.deploy(made, image_id=cast.image.id, actor="owner@example.com")
    session.commit()
    work()
    before = node.options
    node.options = replace(before, boot_seconds=0)
    yield made
    node.options = before


@pytest.fixture
def workers(monkeypatch):
    """Somebody works while a request waits."""
    monkeypatch.setattr(jobs.time, "sleep", lambda _: work_off())


def minted(answer, who="owner"):
    assert answer.status_code == 200, answer.json
    return answer.json["data"] if who == "admin" else answer.json


def rows():
    return session.scalars(select(ConsoleSession).execution_options(populate_existing=True)).all()


@pytest.fixture
def opened(as_, running, workers):
    """A session that is open, as its row says."""

    def make(kind="screen", who="owner", row=None):
        if row is None:
            path = {"screen": "novnc", "shell": "webssh"}[kind]
            if who == "admin":
                path = path.replace("webssh", "ssh")
            minted(as_(who, "GET", f"/api{'/v1' if who == 'admin' else ''}/instance/{running.id}/{path}"), who)
            row = rows()[-1]
        row.spent_at = row.seen_at = row.opened_at = clock.now()
        row.ip = "192.0.2.7"
        session.commit()
        return row

    return make

"""Fixtures for console sessions: VNC (screen) and SSH (shell)."""

from dataclasses import replace

import pytest

from panel.core import clock
from panel.core.db import session
from panel.services import instances
from panel.workflows import waiting
from tests.instances.consoles.sessions import PUBLIC_URL, get_created_session, list_console_sessions
from tests.support.task_queue import run_queued_calls


@pytest.fixture
def set_public_url(rolled_back_app, monkeypatch):
    """Return a function that sets the public URL of the panel."""

    def set_to(url):
        monkeypatch.setitem(
            rolled_back_app.extensions, "config", replace(rolled_back_app.extensions["config"], public_url=url)
        )

    set_to(PUBLIC_URL)
    return set_to


@pytest.fixture
def running_instance(cast, run_tasks, node, set_public_url):
    """A running instance of the owner, whose guest has booted."""
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="owner@example.com")
    session.commit()
    run_tasks()
    before = node.options
    node.options = replace(before, boot_seconds=0)
    yield instance
    node.options = before


@pytest.fixture
def inline_workers(monkeypatch):
    """Run queued calls while a request waits."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())


@pytest.fixture
def open_session(api_as, running_instance, inline_workers):
    """Return a function that creates a session and marks its row as open."""

    def make(kind="screen", caller="owner", row=None):
        if row is None:
            path = {"screen": "novnc", "shell": "webssh"}[kind]
            if caller == "admin":
                path = path.replace("webssh", "ssh")
            get_created_session(
                api_as(
                    caller, "GET", f"/api{'/v1' if caller == 'admin' else ''}/instance/{running_instance.id}/{path}"
                ),
                caller,
            )
            row = list_console_sessions()[-1]
        row.redeemed_at = row.seen_at = row.opened_at = clock.now()
        row.ip = "192.0.2.7"
        session.commit()
        return row

    return make

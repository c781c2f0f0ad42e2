"""Keys, an image and a node for the sandbox API."""

import pytest

from panel.core import context
from panel.core.db import session
from panel.services import microvm_api_keys
from panel.services.access import get_for_account
from panel.services.microvms import profiles
from tests.support.microvms import register_image


@pytest.fixture
def image(rolled_back_app):
    return register_image(aliases=["base"])


@pytest.fixture
def profile(cast):
    profile = profiles.create(hypervisor_id=cast.node.id)
    session.commit()
    return profile


@pytest.fixture
def keys(cast):
    """The values of a key of `owner` and one of `outsider`."""
    context.current().cached_tokens.clear()
    values = {
        who: microvm_api_keys.create(get_for_account(getattr(cast, who)), name=who)[1] for who in ("owner", "outsider")
    }
    session.commit()
    return values


@pytest.fixture
def call(rolled_back_app, keys):
    """Return a function that calls the sandbox API: `call("GET", "/v2/sandboxes")`. `key` replaces the owner's key."""

    def send(method, path, body=None, *, key=None, headers=(), **options):
        sent = {"X-API-Key": keys["owner"] if key is None else key, **dict(headers)}
        if body is not None:
            options["json"] = body
        answer = rolled_back_app.test_client().open(
            f"/api/sbx{path}", method=method, headers=sent, buffered=True, **options
        )
        session.expire_all()
        return answer

    return send


@pytest.fixture
def create_sandbox(call, image, profile, run_tasks):
    """Return a function that creates a sandbox that runs. It returns the body of the answer."""

    def create(is_running=True, **body):
        answer = call("POST", "/v2/sandboxes", {"templateID": "base", **body})
        assert answer.status_code == 201, answer.json
        if is_running:
            run_tasks()
        return answer.json

    return create

"""Fixtures that create API tokens."""

import pytest

from panel.auth import permissions
from panel.core.db import session
from panel.services import tokens


@pytest.fixture
def create_token(api_as, cast):
    """Return a function that creates a token by the API and stores its value as `cast.tokens[name]`."""

    def create(caller="owner", name="made", **body):
        answer = api_as(caller, "POST", "/api/api-tokens", json={"name": name, "scopes": ["account:read"], **body})
        assert answer.status_code == 200, answer.json
        cast.tokens[name] = answer.json["token"]
        return answer.json["api_token"]

    return create


@pytest.fixture
def issue_token(cast):
    """Return a function that issues a token without the API and stores its value as `cast.tokens[name]`."""

    def issue(caller="owner", name="issued", kind="user", **facts):
        facts = {"scopes": permissions.USER_SCOPES, **facts}
        token, cast.tokens[name] = tokens.issue(kind, name=name, account=getattr(cast, caller), **facts)
        session.commit()
        return token

    return issue

"""Every operation of both documents, tried by everybody who may not: nothing is open by accident.

IDT-02, IDT-05, IDT-20, ENV-03 to ENV-08, OP-01.
"""

import re

import pytest
from sqlalchemy import select

from panel.auth import permissions
from panel.db import session
from panel.models import Token
from panel.services import tokens
from tests.test_architecture import SURFACES, operations

UNKNOWN = "0199c0a8-0000-7000-8000-000000000000"


def concrete(path):
    return re.sub(r"{\w+}", UNKNOWN, path)


@pytest.fixture
def everything(app):
    return {surface: list(operations(app, surface)) for surface in SURFACES}


def test_nobody_gets_in(as_, everything):
    for method, path, _ in everything["USER"]:
        answer = as_("nobody", method, concrete(path))
        assert answer.status_code == 401, path
        assert answer.json["success"] is False
    for method, path, _ in everything["ADMIN"]:
        answer = as_("nobody", method, concrete(path))
        assert (answer.status_code, answer.json) == (403, {"success": False, "message": "Unauthorized!"}), path
        assert answer.headers["X-Api-Envelope"] == "v1"


def test_an_unknown_token_gets_nowhere(as_, everything):
    stranger = {"Authorization": "Bearer " + "x" * 43}
    for surface in SURFACES:
        for method, path, _ in everything[surface]:
            assert as_("nobody", method, concrete(path), headers=stranger).status_code == 401, path


@pytest.mark.parametrize("change", [{"enabled": False}, {"expires_at": "past"}, {"allowed_ips": ["203.0.113.9"]}])
def test_a_token_that_is_not_valid_here_gets_nowhere(as_, cast, everything, change):
    from datetime import timedelta

    from panel import clock

    if "expires_at" in change:
        change = {"expires_at": clock.now() - timedelta(seconds=1)}
    for who, surface in (("owner", "USER"), ("admin", "ADMIN")):
        token = session.scalar(select(Token).where(Token.secret_hash == tokens.hashed(cast.tokens[who])))
        for field, value in change.items():
            setattr(token, field, value)
        session.commit()
        expected = 403 if "allowed_ips" in change else 401
        for method, path, _ in everything[surface]:
            assert as_(who, method, concrete(path)).status_code == expected, path


def test_a_forged_forwarded_address_does_not_open_a_locked_token(as_, cast):
    """IDT-13"""
    token = session.scalar(select(Token).where(Token.secret_hash == tokens.hashed(cast.tokens["admin"])))
    token.allowed_ips = ["203.0.113.9"]
    session.commit()
    answer = as_("admin", "GET", "/api/v1/auth", headers={"X-Forwarded-For": "203.0.113.9"})
    assert answer.status_code == 403


def test_each_operation_needs_its_own_scope(as_, cast, everything):
    """IDT-17 to IDT-20: a token with every scope but the one that is needed is refused, and told which."""
    for permission in permissions.USER:
        scopes = [scope for scope in permissions.USER if scope != permission]
        cast.tokens["narrow"] = tokens.issue("user", name="n", account=cast.owner, scopes=scopes)[1]
        session.commit()
        for method, path, operation in everything["USER"]:
            answer = as_("narrow", method, concrete(path))
            if operation["x-permission"] == permission:
                assert answer.status_code == 403, path
                assert permission in answer.json["message"]
            else:
                assert answer.status_code != 403, path


def test_the_surfaces_do_not_open_for_each_others_tokens(as_, everything):
    """ENV-07: a customer's token is known to the operators' API, and refused without the exclamation mark."""
    for method, path, _ in everything["ADMIN"]:
        answer = as_("owner", method, concrete(path))
        assert (answer.status_code, answer.json) == (403, {"success": False, "message": "Unauthorized"}), path
    for method, path, _ in everything["USER"]:
        assert as_("admin", method, concrete(path)).status_code == 401, path


def test_unknown_and_foreign_ids_are_the_same_404(as_, cast, everything):
    """INS-36, OP-01: an outsider cannot tell what exists."""
    instance = cast.instance("owner")
    key = as_("owner", "POST", "/api/ssh-key/generate", json={"name": "k", "algorithm": "ed25519"}).json["ssh_key"]
    task = as_("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}").json["task_id"]
    ids = {"instance_id": instance.id, "key_id": key["id"], "task_id": task}
    tried = 0
    for method, path, _ in everything["USER"]:
        names = re.findall(r"{(\w+)}", path)
        if not set(names) & ids.keys():
            continue
        foreign = as_("outsider", method, re.sub(r"{(\w+)}", lambda m: ids[m[1]], path), json=body_for(path, cast))
        unknown = as_("outsider", method, concrete(path), json=body_for(path, cast))
        assert (foreign.status_code, foreign.json) == (unknown.status_code, unknown.json), path
        assert foreign.status_code == 404, path
        tried += 1
    assert tried > 15


def body_for(path, cast):
    return {"image_id": cast.image.id} if path.endswith("/deploy") else {}

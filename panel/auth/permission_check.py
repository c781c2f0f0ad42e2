"""What a token may do, without doing it: the answer of the check that stands on every route (panel.auth.tokens)."""

import re
from dataclasses import dataclass

from flask import current_app
from werkzeug.exceptions import HTTPException

from panel.auth import permissions
from panel.auth.tokens import authorization_errors
from panel.core.errors import NotFound
from panel.services import tokens
from panel.services.access import Access

PLACEHOLDER_PATTERN = re.compile(r"\{\w*_?id\}")
SOME_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
"""Stands for any id: people write paths with `{id}`."""
CONVERTER_PATTERN = re.compile(r"<(?:\w+:)?(\w+)>")
UNKNOWN_TOKEN_MESSAGE = "This is no valid token of this account."


@dataclass
class PermissionCheck:
    token: object
    acts_as: str
    refusals: list[str]
    """Why the request would be refused; empty when it would be served."""


def explain(value, request, address, viewer_access):
    """What would come of the request, like `GET /api/instances`, with the token and from the address.

    Only tokens that the viewer may see are explained: raises NotFound for others and for what is no operation.
    """
    method, _, path = request.strip().partition(" ")
    door = requirement_for(method.upper(), path.strip())
    found = tokens.find_by_value(value.strip())
    if found is None:
        raise NotFound(UNKNOWN_TOKEN_MESSAGE, token=UNKNOWN_TOKEN_MESSAGE)
    token = get_token(found.id, viewer_access)
    if not token.is_usable:
        return PermissionCheck(token, found.email, [f"The token is {token.state}."])
    access = Access.of(found, impersonator=found.issued_by)
    reasons = authorization_errors(door, method.upper(), found, access, address)
    return PermissionCheck(token, found.email, [refusal.message for refusal in reasons])


def get_token(token_id, access):
    try:
        return tokens.get(token_id, access)
    except NotFound:
        raise NotFound(UNKNOWN_TOKEN_MESSAGE, token=UNKNOWN_TOKEN_MESSAGE) from None


def requirement_for(method, path):
    """What the operation of the customers' API at this path asks for."""
    try:
        endpoint, _ = current_app.url_map.bind("").match(PLACEHOLDER_PATTERN.sub(SOME_ID, path), method=method)
    except HTTPException:
        endpoint = None
    door = requirements().get(endpoint)
    if door is None:
        sentence = "There is no such operation of the user API. Write it like GET /api/instances."
        raise NotFound(sentence, request=sentence)
    return door


def requirements():
    """What each endpoint of the customers' API asks for."""
    every = {name: getattr(view, "door", None) for name, view in current_app.view_functions.items()}
    return {name: door for name, door in every.items() if door and is_customer_permission(door.permission)}


def is_customer_permission(permission):
    return permission in (*permissions.MEMBER, *permissions.ROLE_INDEPENDENT)


def list_operations():
    """Every operation of the customers' API, as people write it."""
    found = requirements()
    rules = [rule for rule in current_app.url_map.iter_rules() if rule.endpoint in found]
    written = {
        " ".join((method, CONVERTER_PATTERN.sub(r"{\1}", rule.rule)))
        for rule in rules
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    return sorted(written, key=lambda line: line.partition(" ")[::-1])

"""Dry run of the authorization of API routes (panel.auth.tokens), which explains what a token may do."""

import re
from dataclasses import dataclass

from flask import current_app
from werkzeug.exceptions import HTTPException

from panel.auth import permissions
from panel.auth.tokens import list_authorization_errors
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.services import tokens
from panel.services.access import Access

PLACEHOLDER_PATTERN = re.compile(r"\{\w*_?id\}")
SOME_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
"""Replaces `{id}` in paths, so that they match a route."""
CONVERTER_PATTERN = re.compile(r"<(?:\w+:)?(\w+)>")
UNKNOWN_TOKEN_MESSAGE = message("Not a valid token of this account.")


@dataclass
class PermissionCheck:
    token: object
    acts_as: str
    refusals: list[str]
    """Why the request would be refused; empty when it would be served."""


def explain_request(value, request, address, viewer_access):
    """Check a request such as `GET /api/instances` with the token value and from the address.

    Raise NotFound for tokens that the viewer may not see, and for an unknown operation.
    """
    method, _, path = request.strip().partition(" ")
    requirement = get_requirement(method.upper(), path.strip())
    token_row = tokens.find_by_value(value.strip())
    if token_row is None:
        raise NotFound(UNKNOWN_TOKEN_MESSAGE, token=UNKNOWN_TOKEN_MESSAGE)
    token = get_token(token_row.id, viewer_access)
    if not token.is_usable:
        return PermissionCheck(token, token_row.email, [message("The token is {state}.", state=token.state)])
    access = Access.from_row(token_row, impersonator=token_row.issued_by)
    reasons = list_authorization_errors(requirement, method.upper(), token_row, access, address)
    return PermissionCheck(token, token_row.email, [refusal.message for refusal in reasons])


def get_token(token_id, access):
    try:
        return tokens.get(token_id, access)
    except NotFound:
        raise NotFound(UNKNOWN_TOKEN_MESSAGE, token=UNKNOWN_TOKEN_MESSAGE) from None


def get_requirement(method, path):
    """Return the requirement of the user API's operation at this path. Raise NotFound when there is none."""
    try:
        endpoint, _ = current_app.url_map.bind("").match(PLACEHOLDER_PATTERN.sub(SOME_ID, path), method=method)
    except HTTPException:
        endpoint = None
    requirement = map_requirements().get(endpoint)
    if requirement is None:
        sentence = message("There is no such operation of the user API. Write it like GET /api/instances.")
        raise NotFound(sentence, request=sentence)
    return requirement


def map_requirements():
    """Return the requirement of each endpoint of the user API."""
    all_requirements = {name: getattr(view, "requirement", None) for name, view in current_app.view_functions.items()}
    return {
        name: requirement
        for name, requirement in all_requirements.items()
        if requirement and is_customer_permission(requirement.permission)
    }


def is_customer_permission(permission):
    return permission in (*permissions.MEMBER_PERMISSIONS, *permissions.ROLE_INDEPENDENT)


def list_operations():
    """Return every operation of the user API as `METHOD /path/{id}`, sorted by path."""
    endpoints = map_requirements()
    rules = [rule for rule in current_app.url_map.iter_rules() if rule.endpoint in endpoints]
    operations = {
        " ".join((method, CONVERTER_PATTERN.sub(r"{\1}", rule.rule)))
        for rule in rules
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    return sorted(operations, key=lambda line: line.partition(" ")[::-1])

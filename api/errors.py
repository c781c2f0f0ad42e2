"""Failures of every kind, in the dialect of the path that was asked for (specification 7.1)."""

import functools

import structlog
from flask import g, jsonify, request
from marshmallow import Schema, fields
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException

from panel.core.db import session
from panel.core.errors import Problem

log = structlog.get_logger()

UNPREFIXED_USER_PATHS = ("/version", "/connect", "/instance/")
"""How paths of the customers' API begin that are also served without its prefix."""


FAILURE_FIELDS = ("success", "message", "reason", "errors")


class UserError(Schema):
    """What every failure of the customers' API looks like."""

    sometimes = ("reason", "errors")
    success = fields.Boolean(metadata={"description": "Always false.", "example": False})
    message = fields.String(metadata={"description": "What happened and how to go on.", "example": "No such instance."})
    reason = fields.String(metadata={"description": "A word for programs to branch on.", "example": "task_running"})
    errors = fields.Dict(
        keys=fields.String(),
        values=fields.List(fields.String()),
        metadata={"description": "For each field what is wrong with it.", "example": {"name": ["Too long."]}},
    )


class AdminError(UserError):
    """What every failure of the operators' API looks like."""


def dialect(path):
    """`admin`, `user` or None for a page."""
    if path == "/api/v1" or path.startswith("/api/v1/"):
        return "admin"
    return "user" if path == "/api" or path.startswith(("/api/", *UNPREFIXED_USER_PATHS)) else None


def build_failure(status, message, *, reason=None, errors=None, extra=None):
    body = {"success": False, "message": message}
    if reason:
        body["reason"] = reason
    if errors:
        body["errors"] = errors
    if dialect(request.path) == "admin":
        body |= {"data": extra} if extra else {}
    else:
        body |= extra or {}
    made = jsonify(body)
    made.status_code = status
    return made


def answer_problem(error: Problem):
    session.rollback()
    made = build_failure(error.status, error.message, reason=error.reason, errors=error.fields, extra=error.extra)
    if dialect(request.path) == "admin" and not error.chosen:
        made.headers["X-Failure-Status-Mapped"] = "1"
    if error.status == 401:
        made.headers["WWW-Authenticate"] = "Bearer"
    return made


def raise_on_failure(view):
    """A view whose body says `success: false` without a status of its own has refused: the answer is a 400 (4.1)."""

    @functools.wraps(view)
    def asked(*args, **kwargs):
        body = view(*args, **kwargs)
        if isinstance(body, dict) and body.get("success") is False:
            rest = {
                name: value for name, value in body.items() if name not in ("success", "message", "reason", "errors")
            }
            refusal = Problem(body.get("message"), reason=body.get("reason"), extra=rest)
            refusal.fields = body.get("errors") or {}
            raise refusal
        return body

    return asked


def answer_http_error(error: HTTPException):
    """What the framework refuses by itself: unknown paths, wrong methods, too large bodies."""
    session.rollback()
    words = {404: "There is nothing at this address.", 405: "This method is not allowed here."}
    made = build_failure(error.code or 500, words.get(error.code, error.description or error.name))
    for name, value in error.get_headers():
        if name.lower() in ("allow", "retry-after"):
            made.headers[name] = value
    return made


def answer_outage(status, message):
    """The database is away, full or busy: no fault of the request."""
    return build_failure(status, f"{message} Tell support this id if it stays: {g.get('request_id')}.")


def answer_crash(error: Exception):
    """A fault of ours. The request's id is all that leaves; the rest is in the log."""
    session.rollback()
    log.exception("request_crashed", database=isinstance(error, SQLAlchemyError))
    return build_failure(500, f"Something went wrong inside the panel. Tell support this id: {g.get('request_id')}.")

"""Error responses, in the dialect of the requested path."""

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
"""Prefixes of paths of the customers' API that are also served without `/api`."""


SANDBOX_PREFIX = "/api/sbx"
"""The sandbox API, whose errors are `{code, message}`: the SDKs read both."""
CROSS_ORIGIN_HEADERS = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "*"}
"""What browsers require of the sandbox API's answers, so that pages of other origins can read them."""

FAILURE_FIELDS = ("success", "message", "reason", "errors")


class UserError(Schema):
    """The error body of the customers' API."""

    sometimes = ("reason", "errors")
    success = fields.Boolean(metadata={"description": "Always false.", "example": False})
    message = fields.String(
        metadata={"description": "What went wrong and how to fix it.", "example": "No such instance."}
    )
    reason = fields.String(metadata={"description": "Machine-readable reason code.", "example": "task_running"})
    errors = fields.Dict(
        keys=fields.String(),
        values=fields.List(fields.String()),
        metadata={"description": "Error messages by field.", "example": {"name": ["Too long."]}},
    )


class AdminError(UserError):
    """The error body of the operators' API."""


def find_dialect(path):
    """Return `admin`, `sandbox`, `user`, or None for the path of a page."""
    if path == "/api/v1" or path.startswith("/api/v1/"):
        return "admin"
    if path == SANDBOX_PREFIX or path.startswith(f"{SANDBOX_PREFIX}/"):
        return "sandbox"
    return "user" if path == "/api" or path.startswith(("/api/", *UNPREFIXED_USER_PATHS)) else None


def build_failure(status, message, *, reason=None, errors=None, extra=None):
    dialect = find_dialect(request.path)
    if dialect == "sandbox":
        response = jsonify(build_sandbox_failure(status, message, reason=reason, errors=errors))
        response.status_code = status
        return response
    body = {"success": False, "message": message}
    if reason:
        body["reason"] = reason
    if errors:
        body["errors"] = errors
    if dialect == "admin":
        body |= {"data": extra} if extra else {}
    else:
        body |= extra or {}
    response = jsonify(body)
    response.status_code = status
    return response


def build_sandbox_failure(status, message, *, reason=None, errors=None):
    """Return the body of an error of the sandbox API. It has no place for errors of fields but the sentence."""
    details = [f"{field}: {text}" for field, texts in (errors or {}).items() for text in texts if text != message]
    body = {"code": status, "message": " ".join([str(message), *details])}
    return body | ({"error_code": reason} if reason else {})


def answer_problem(error: Problem):
    session.rollback()
    response = build_failure(error.status, error.message, reason=error.reason, errors=error.fields, extra=error.extra)
    if find_dialect(request.path) == "admin" and not error.chosen:
        response.headers["X-Failure-Status-Mapped"] = "1"
    if error.status == 401:
        is_sandbox = find_dialect(request.path) == "sandbox"
        response.headers["WWW-Authenticate"] = "ApiKey" if is_sandbox else "Bearer"
    return response


def raise_on_failure(view):
    """Return the view; a body with `success: false` becomes a 400 (ENV-15)."""

    @functools.wraps(view)
    def checked(*args, **kwargs):
        body = view(*args, **kwargs)
        if isinstance(body, dict) and body.get("success") is False:
            extra = {
                name: value for name, value in body.items() if name not in ("success", "message", "reason", "errors")
            }
            refusal = Problem(body.get("message"), reason=body.get("reason"), extra=extra)
            refusal.fields = body.get("errors") or {}
            raise refusal
        return body

    return checked


def answer_http_error(error: HTTPException):
    """Answer an error of the framework: unknown path, wrong method, too large body."""
    session.rollback()
    messages = {404: "There is nothing at this address.", 405: "This method is not allowed here."}
    code = error.code or 500
    response = build_failure(code, messages.get(code, error.description or error.name))
    for name, value in error.get_headers():
        if name.lower() in ("allow", "retry-after"):
            response.headers[name] = value
    return response


def answer_outage(status, message):
    """Answer a request that failed because the database is away, full or busy."""
    return build_failure(status, f"{message} If it persists, send support this id: {g.get('request_id')}.")


def answer_crash(error: Exception):
    """Answer an unexpected exception. The response has only the request's id; the log has the details."""
    session.rollback()
    log.exception("request_crashed", database=isinstance(error, SQLAlchemyError))
    return build_failure(500, f"An internal error occurred. Send support this id: {g.get('request_id')}.")

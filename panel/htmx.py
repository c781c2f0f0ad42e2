"""Rendering: the whole page or, for htmx, the part that changed; and failures as pages."""

import structlog
from flask import g, render_template, request
from werkzeug.exceptions import HTTPException

from panel.db import session
from panel.errors import Problem

log = structlog.get_logger()


def problem(error: Problem):
    session.rollback()
    return render_template("error.html", status=error.status, message=error.message), error.status


def http(error: HTTPException):
    session.rollback()
    return render_template("error.html", status=error.code, message=error.description), error.code


def crash(error: Exception):
    session.rollback()
    log.exception("request_crashed", path=request.path)
    message = f"Something went wrong inside the panel. Tell support this id: {g.get('request_id')}."
    return render_template("error.html", status=500, message=message), 500

"""The web application with all APIs and pages. The only module that may import every other."""

import secrets
from urllib.parse import urlsplit

import orjson
import structlog
from flask import Flask, g, make_response, request
from flask.json.provider import JSONProvider
from flask_compress import Compress
from sqlalchemy.exc import DataError, IntegrityError
from werkzeug.exceptions import HTTPException

import api
import api.errors
import panel.pages.admin
import panel.pages.customer
from api.sandbox import cross_origin
from api.sandbox.host import SandboxHost
from consoles import routes as console_routes
from panel import bootstrap
from panel.auth import audit_context, permissions
from panel.core import db
from panel.core.brand_identity import current_host
from panel.core.config import ROOT, Config
from panel.core.database_errors import find_outage
from panel.core.db import is_read_only_request, may_have_committed, session
from panel.core.errors import Conflict, Invalid, NotFound, PartlyRefused, Problem, TooMany
from panel.core.modules import import_modules
from panel.pages import layout
from panel.ratelimit import api_budget
from panel.web import assets, branding, health, htmx, platform_metrics, request_metrics
from panel.web.page_registry import AreaPageRegistry

CUSTOMER_PAGES = AreaPageRegistry(import_modules(panel.pages.customer), panel.pages.customer.NAVIGATION_GROUPS)
OPERATOR_PAGES = AreaPageRegistry(import_modules(panel.pages.admin), panel.pages.admin.NAVIGATION_GROUPS)
PAGE_MODULES = (
    health,
    platform_metrics,
    assets,
    branding,
    console_routes,
    *CUSTOMER_PAGES.modules,
    *OPERATOR_PAGES.modules,
)
"""All modules with a blueprint `bp` for pages, files of browsers or consoles."""

log = structlog.get_logger()
OUTAGE_RETRY_SECONDS = 10
NOT_SAVED_MESSAGE = (
    "The panel's database is not available at the moment. Nothing was changed. Try again in a few seconds."
)
OUTCOME_UNKNOWN_MESSAGE = (
    "The panel's database failed while your change was being saved, so it may or may not have been made. Check before"
    " you repeat it."
)
MAX_BODY_BYTES = 4 * 1024 * 1024


class OrjsonProvider(JSONProvider):
    """JSON by orjson. Times are written in UTC with a Z."""

    def dumps(self, obj, **_):
        return orjson.dumps(obj, default=str, option=orjson.OPT_UTC_Z).decode()

    def loads(self, text, **_):
        return orjson.loads(text)


class Panel(Flask):
    def log_exception(self, exc_info):
        """Do nothing, because `handle_exception` logs."""


def create_app(config: Config) -> Flask:
    """Return the web application with the APIs and all pages."""
    app = Panel("panel", template_folder=ROOT / "templates", static_folder=None)
    app.json = OrjsonProvider(app)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.config |= {
        "SECRET_KEY": config.secret_key.split(",")[0],
        "SECRET_KEY_FALLBACKS": config.secret_key.split(",")[1:],
        "MAX_CONTENT_LENGTH": MAX_BODY_BYTES,
        "PROPAGATE_EXCEPTIONS": False,
        "PROVIDE_AUTOMATIC_OPTIONS": False,
        "COMPRESS_MIN_SIZE": 2000,
        "COMPRESS_LEVEL": 1,
        "COMPRESS_STREAMS": False,
    }
    bootstrap.init_app(app, config)
    app.extensions["openapi"] = api.register(app)
    app.extensions |= {"customer_pages": CUSTOMER_PAGES, "operator_pages": OPERATOR_PAGES}
    for pages in PAGE_MODULES:
        app.register_blueprint(pages.bp)
    request_metrics.init_app(app)
    app.before_request(before_request)
    Compress(
        app
    )  # before the next line, because the ETag is one of the plain body: gzip writes the time into its header
    app.after_request(commit_or_rollback)
    app.teardown_request(lambda _: db.end_request())
    layout.init_app(app)
    app.wsgi_app = SandboxHost(app.wsgi_app)  # type: ignore[method-assign]  # as Flask documents
    app.register_error_handler(Problem, handle_exception)
    app.register_error_handler(HTTPException, handle_exception)
    app.register_error_handler(Exception, handle_exception)
    return app


def before_request():
    db.begin_request(is_read_only=request.method in permissions.READ_METHODS)
    g.request_id = secrets.token_hex(8)
    audit_context.start_tracking()
    current_host.set(find_host_name(request.host))
    structlog.contextvars.bind_contextvars(request_id=g.request_id)
    has_nul = b"%00" in request.query_string  # databases cannot store NUL in texts
    if has_nul and api.errors.find_dialect(request.path):
        raise Invalid("The query must not contain control characters.")
    if has_nul or "\0" in request.path:
        raise NotFound("There is nothing at this address.")
    if api.errors.find_dialect(request.path) == "sandbox" and cross_origin.is_preflight():
        return "", 204
    return None


def find_host_name(host):
    """Return the name of a Host header without the port, or an empty text."""
    try:
        return (urlsplit(f"//{host}").hostname or "")[:255]
    except ValueError:
        return ""


def commit_or_rollback(response):
    """Commit after a successful answer, roll back after an error, and set the APIs' headers. When the commit fails,
    Flask answers with `handle_exception` and calls this again."""
    if audit_context.has_failed_sign_in():
        session.rollback()
        audit_context.write_failed_sign_in()
        session.commit()
    if response.status_code < 400:
        save_changes()
    else:
        session.rollback()
    response.headers["X-Request-Id"] = g.get("request_id", "")
    api_dialect = api.errors.find_dialect(request.path)
    if api_dialect == "admin":
        response.headers["X-Api-Envelope"] = "v1"
    elif api_dialect == "sandbox":
        cross_origin.set_headers(response)
    if api_dialect:
        api_budget.set_headers(response)
        is_repeatable = request.method == "GET" and is_read_only_request()
        if is_repeatable and response.status_code == 200 and not response.is_streamed:
            response.headers["Cache-Control"] = "private, no-cache"
            response.add_etag()
            response.make_conditional(request)
        else:
            response.headers["Cache-Control"] = "no-store"
    structlog.contextvars.unbind_contextvars("request_id")
    return response


def save_changes():
    audit_context.write_entry()
    session.commit()


def handle_exception(error):
    """Answer an exception in the dialect of the requested path: a page, or the error format of an API."""
    surface = api.errors if api.errors.find_dialect(request.path) else htmx
    error = getattr(error, "original_exception", None) or error  # Flask wraps unhandled exceptions
    if isinstance(error, IntegrityError):  # two requests collided, and a constraint refused one
        log.warning("request_conflicted")
        error = Conflict("Something else was done at the same moment. Look again, and repeat it if it is still needed.")
    if isinstance(error, DataError) and "NUL" in str(error.orig):  # PostgreSQL's driver, for a form without a schema
        error = Invalid("The values must not contain control characters.")
    if isinstance(error, PartlyRefused):
        save_changes()
    if isinstance(error, Problem):
        answer = make_response(surface.answer_problem(error))
        if isinstance(error, TooMany):
            answer.headers["Retry-After"] = error.seconds
        return answer
    if isinstance(error, HTTPException):
        return surface.answer_http_error(error)
    return outage_response(surface, error) or surface.answer_crash(error)


def outage_response(surface, error):
    """Return the answer to an outage of the database; None for every other error. Clients repeat after a 503, so it is
    used only when nothing was saved; otherwise the status is 500."""
    if (outage := find_outage(error)) is None:
        return None
    is_outcome_unknown = may_have_committed(outage)
    session.rollback()
    log.error(
        "database_unavailable",
        problem=outage.problem,
        detail=outage.detail,
        saved="unknown" if is_outcome_unknown else "no",
    )
    answer = make_response(
        surface.answer_outage(
            500 if is_outcome_unknown else 503, OUTCOME_UNKNOWN_MESSAGE if is_outcome_unknown else NOT_SAVED_MESSAGE
        )
    )
    if not is_outcome_unknown:
        answer.headers["Retry-After"] = OUTAGE_RETRY_SECONDS
    return answer

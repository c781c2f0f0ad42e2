"""Rendering: the whole page or, for htmx, the part that changed; going elsewhere; and failures as pages.

htmx 4 says in `HX-Request-Type` what it wants: `partial` gets one block of the same template, the rest the page.
"""

import json
import re

import structlog
from flask import current_app, flash, g, make_response, redirect, render_template, request, url_for
from markupsafe import Markup
from werkzeug.exceptions import HTTPException

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Problem

log = structlog.get_logger()

LOCAL_URL_PATTERN = re.compile(r"/(?![/\\])[!-\[\]-~]*")
ORIGIN_PATTERN = re.compile(r"^https?://[^/?#]*")

CONFIRMATION_FIELD = "typed"
"""The field in which a person types a name to confirm what cannot be undone."""

ERROR_TITLES = {
    403: "You may not do this",
    404: "There is nothing here",
    405: "This cannot be done here",
    409: "This cannot be done now",
    413: "This is too large",
    429: "Too many attempts",
    500: "Something went wrong",
    503: "Not available at the moment",
}


def is_partial():
    return request.headers.get("HX-Request-Type") == "partial"


def is_htmx_request():
    return "HX-Request" in request.headers


def flash_message(message, level=None):
    """A sentence for the person, shown with the next page or part: `success`, `info`, `warning` or `danger`. Without a
    level it is `success`, which has a green tick; what only queued a task is not done yet and is `info`."""
    flash(message, level or ("info" if jobs.has_queued_tasks() else "success"))


def render(template, block=None, *, status=200, **context):
    """The page, or for htmx only its block, with what there is to say beside it."""
    if block and is_partial():
        answer = make_response(render_block(template, block, **context) + render_toasts(), swallow_4xx(status))
    else:
        answer = make_response(render_template(template, **context), status)
    answer.vary.add("HX-Request-Type")
    return answer


def swallow_4xx(status):
    """Browsers print every refused request of a script to their console. What a person mistyped or asked for too early
    is no fault of the page, so to htmx it is an answer like others; whoever answers it has rolled back."""
    return 200 if status in (409, 422) and request.method == "POST" else status


def render_block(name, block, **context):
    """One block of a template as text."""
    template = current_app.jinja_env.get_template(name)
    current_app.update_template_context(context)
    return Markup("").join(Markup(text) for text in template.blocks[block](template.new_context(context)))


def out_of_band(target, markup, how="outerHTML"):
    """A further part of an answer: what stands at the CSS selector `target` becomes `markup`."""
    return Markup('<hx-partial hx-target="{}" hx-swap="{}">{}</hx-partial>').format(target, how, markup)


def render_toasts():
    """What there is to say, for a part: added to the messages that the page already shows."""
    shown = render_block("layout/toasts.html", "toasts")
    return out_of_band("#toasts", shown, "beforeend") if shown.strip() else Markup("")


def is_script_request():
    """Whether a script of a page asks, which reads facts and not pages."""
    return request.headers.get("Accept") == "application/json"


def action_done(message, url, level=None):
    """An action was done. htmx stays where it is and the live parts of the page look again; else on to `address`."""
    if is_script_request():
        return make_response({"message": message})
    flash_message(message, level)
    if not is_partial():
        return redirect_to(url)
    answer = make_response(render_toasts())
    answer.headers["HX-Reswap"] = "none"
    answer.headers["HX-Trigger"] = "changed"
    return answer


def is_local_url(url):
    """Whether the address can only lead to a page of this panel: no host, and nothing that browsers take for one."""
    return LOCAL_URL_PATTERN.fullmatch(url) is not None


def redirect_to(url):
    """On to another page of this panel: a redirect that htmx follows as a whole page too."""
    if not is_local_url(url):
        raise ValueError(f"{url} is no page of this panel.")
    if not is_htmx_request():
        return redirect(url, 303)
    answer = make_response("")
    answer.headers["HX-Redirect"] = url
    return answer


def refused(status, message, reason=None):
    """A failure for a script of a page."""
    return make_response({"success": False, "message": message} | ({"reason": reason} if reason else {}), status)


def answer_problem(error: Problem):
    session.rollback()
    if is_script_request():
        return refused(error.status, error.message, error.reason)
    if error.status == 401:
        return redirect_to(url_for("sign_in.show", next=next_url()))
    if error.reason == "second_factor_required" and not is_partial():
        return redirect_to(url_for("security.show"))
    fields = dict(error.fields)
    if "name" in fields and CONFIRMATION_FIELD in request.form:  # the API calls what is typed to confirm `name`
        fields[CONFIRMATION_FIELD] = fields["name"]
    return error_response(error.status, error.message, fields)


def answer_http_error(error: HTTPException):
    session.rollback()
    words = {404: "There is nothing at this address.", 405: "This page does not take what was sent to it."}
    if error.code and error.code < 400:
        return error.get_response()
    return error_response(error.code, words.get(error.code, error.description))


def answer_crash(error: Exception):
    session.rollback()
    log.exception("request_crashed", page=request.endpoint)  # not the path: there are links with secrets in them
    return error_response(500, "The fault is ours and it was noted. If it stays, tell support the id below.")


def answer_outage(status, message):
    """The database is away, full or busy: the page shows nobody's name, because nobody can be looked up."""
    g.is_database_unavailable = True
    return error_response(status, message)


def error_response(status, message, fields=None):
    """A failure as a page; for a part, as a message beside the page that stays as it is. What a person typed to confirm
    gets its message at the field: app.js puts it there."""
    if is_script_request():
        return refused(status, message)
    if is_partial() and CONFIRMATION_FIELD in (fields or {}):
        answer = make_response("", swallow_4xx(status))
        answer.headers["HX-Reswap"] = "none"
        answer.headers["HX-Trigger"] = json.dumps({"field-error": {CONFIRMATION_FIELD: fields[CONFIRMATION_FIELD][0]}})
        return answer
    if is_partial():
        text = f"{message} ({g.get('request_id')})" if status >= 500 else message
        flash_message(text, "danger")
        answer = make_response(render_toasts(), swallow_4xx(status))
        answer.headers["HX-Reswap"] = "none"
        return answer
    title = ERROR_TITLES.get(status, "This did not work")
    return make_response(render_template("layout/error.html", status=status, title=title, message=message), status)


def next_url():
    """The page where a person was, or was going, who has to sign in first."""
    if is_htmx_request():
        page = ORIGIN_PATTERN.sub("", request.headers.get("HX-Current-URL", ""))
    else:
        page = request.full_path.removesuffix("?") if request.method == "GET" else ""
    return page if is_local_url(page) else None

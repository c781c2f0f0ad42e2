"""Answers of pages: full pages, or partials for htmx; redirects; and errors as pages.

htmx 4 sends `HX-Request-Type`: for `partial` the answer is one block of the template, otherwise the full page.
"""

import json
import re
from urllib.parse import urlencode

import structlog
from flask import current_app, flash, g, make_response, redirect, render_template, request, url_for
from markupsafe import Markup
from werkzeug.exceptions import HTTPException

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import ConfirmationRequired, Problem
from panel.web import list_csv
from panel.web.paging import is_csv_requested
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext, translate

log = structlog.get_logger()

LOCAL_URL_PATTERN = re.compile(r"/(?![/\\])[!-\[\]-~]*")
ORIGIN_PATTERN = re.compile(r"^https?://[^/?#]*")

CONFIRMATION_FIELD = "typed"
"""The form field in which a name is typed to confirm an irreversible action."""

ERROR_TITLES = {
    403: lazy_gettext("You don't have permission to do this"),
    404: lazy_gettext("Page not found"),
    405: lazy_gettext("Not possible here"),
    409: lazy_gettext("Not possible at the moment"),
    413: lazy_gettext("This is too large"),
    429: lazy_gettext("Too many attempts"),
    500: lazy_gettext("Something went wrong"),
    503: lazy_gettext("Not available at the moment"),
}


def is_partial():
    return request.headers.get("HX-Request-Type") == "partial"


def is_htmx_request():
    return "HX-Request" in request.headers


def flash_message(message, level=None):
    """Show a message with the next page or partial. `level` is `success`, `info`, `warning` or `danger`; the default is
    `info` when a task was enqueued, because the work is not done yet, else `success`."""
    flash(str(translate(message)), level or ("info" if jobs.has_queued_tasks() else "success"))


def render(template, block=None, *, status=200, **context):
    """Return the full page, or for a partial request only the block, together with pending messages."""
    if block == "rows" and is_csv_requested():
        return list_csv.build_list_csv(render_block(template, block, **context), next_page=g.get("csv_page", 1) + 1)
    if block and is_partial():
        answer = make_response(render_block(template, block, **context) + render_toasts(), swallow_4xx(status))
    else:
        answer = make_response(render_template(template, **context), status)
    answer.vary.add("HX-Request-Type")
    return answer


def swallow_4xx(status):
    """Return 200 in place of 409 and 422 for a POST by htmx, because browsers log every failed request of a script as
    an error. The caller must have rolled back."""
    return 200 if status in (409, 422) and request.method == "POST" else status


def render_block(name, block, **context):
    """Render one block of a template."""
    template = current_app.jinja_env.get_template(name)
    current_app.update_template_context(context)
    return Markup("").join(Markup(text) for text in template.blocks[block](template.new_context(context)))


def render_out_of_band(target, markup, how="outerHTML"):
    """Return a further partial that swaps `markup` into the element at the CSS selector `target`. `how` is htmx's swap
    style."""
    return Markup('<hx-partial hx-target="{}" hx-swap="{}">{}</hx-partial>').format(target, how, markup)


def render_toasts():
    """Return the pending messages as a partial that is appended to the messages on the page."""
    toasts = render_block("layout/toasts.html", "toasts")
    return render_out_of_band("#toasts", toasts, "beforeend") if toasts.strip() else Markup("")


def is_script_request():
    """Return whether the request comes from a page's script that expects JSON."""
    return request.headers.get("Accept") == "application/json"


def build_action_response(message, url, level=None):
    """Answer a completed action with a message. htmx stays on the page and its live parts reload; other requests are
    redirected to `url`."""
    if is_script_request():
        return make_response({"message": str(translate(message))})
    flash_message(message, level)
    if not is_partial():
        return redirect_to(url)
    answer = make_response(render_toasts())
    answer.headers["HX-Reswap"] = "none"
    answer.headers["HX-Trigger"] = "changed"
    return answer


def is_local_url(url):
    """Return whether the URL is a path of this panel: it has no host, and nothing that browsers parse as one."""
    return LOCAL_URL_PATTERN.fullmatch(url) is not None


def redirect_to(url):
    """Redirect to another page of this panel; htmx loads it as a full page. Raise ValueError for any other URL."""
    if not is_local_url(url):
        raise ValueError(f"{url} is no page of this panel.")
    if not is_htmx_request():
        return redirect(url, 303)
    answer = make_response("")
    answer.headers["HX-Redirect"] = url
    return answer


def build_json_error_response(status, message, reason=None):
    """Return an error as JSON, for a page's script."""
    answer = {"success": False, "message": str(translate(message))} | ({"reason": reason} if reason else {})
    return make_response(answer, status)


def answer_problem(error: Problem):
    session.rollback()
    if is_script_request():
        return build_json_error_response(error.status, translate(error.message), error.reason)
    if error.status == 401:
        return redirect_to(url_for("sign_in.show", next=next_url()))
    if error.reason == "second_factor_required" and not is_partial():
        return redirect_to(url_for("security.show"))
    if isinstance(error, ConfirmationRequired):
        return build_confirmation(error.message)
    fields = {name: [translate(text) for text in texts] for name, texts in error.fields.items()}
    if "name" in fields and CONFIRMATION_FIELD in request.form:  # the API's field for the confirmation is `name`
        fields[CONFIRMATION_FIELD] = fields["name"]
    return build_error_response(error.status, translate(error.message), fields)


def build_confirmation(question):
    """Return a page with the question. Its form sends the request once more, without the question."""
    args = [(name, value) for name, value in request.args.items(multi=True) if not name.startswith("confirm")]
    previous_path = ORIGIN_PATTERN.sub("", request.headers.get("Referer", ""))
    context = {
        "question": question,
        "label": request.args.get("confirm_label") or _("Continue"),
        "url": request.path + (f"?{urlencode(args)}" if args else ""),
        "previous_path": previous_path if is_local_url(previous_path) else None,
    }
    return make_response(render_template("layout/confirmation.html", **context), ConfirmationRequired.status)


def answer_http_error(error: HTTPException):
    session.rollback()
    messages = {404: _("This page does not exist."), 405: _("This page does not accept this request.")}
    if error.code and error.code < 400:
        return error.get_response()
    code = error.code or 500
    return build_error_response(code, messages.get(code, error.description or error.name))


def answer_crash(error: Exception):
    session.rollback()
    log.exception("request_crashed", page=request.endpoint)  # not the path, which may contain a secret
    return build_error_response(
        500, _("An internal error occurred. If it happens again, send the ID below to support.")
    )


def answer_outage(status, message):
    """Answer a request that failed because the database is unavailable, full or busy. The page is rendered without the
    viewer's account, which cannot be queried."""
    g.is_database_unavailable = True
    return build_error_response(status, translate(message))


def build_error_response(status, message, fields=None):
    """Return an error page; for a partial request a message, with the page left unchanged. For an error of the
    confirmation field, app.js shows the message at the field."""
    if is_script_request():
        return build_json_error_response(status, message)
    if is_partial() and CONFIRMATION_FIELD in (fields or {}):
        answer = make_response("", swallow_4xx(status))
        answer.headers["HX-Reswap"] = "none"
        answer.headers["HX-Trigger"] = json.dumps(
            {"field-error": {CONFIRMATION_FIELD: translate(fields[CONFIRMATION_FIELD][0])}}
        )
        return answer
    if is_partial():
        text = f"{translate(message)} ({g.get('request_id')})" if status >= 500 else message
        flash_message(text, "danger")
        answer = make_response(render_toasts(), swallow_4xx(status))
        answer.headers["HX-Reswap"] = "none"
        return answer
    title = ERROR_TITLES.get(status, _("Request failed"))
    return make_response(render_template("layout/error.html", status=status, title=title, message=message), status)


def next_url():
    """Return the path to continue at after signing in: the current or requested page, or None."""
    if is_htmx_request():
        page = ORIGIN_PATTERN.sub("", request.headers.get("HX-Current-URL", ""))
    else:
        page = request.full_path.removesuffix("?") if request.method == "GET" else ""
    return page if is_local_url(page) else None

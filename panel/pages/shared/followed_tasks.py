"""Tasks that one action on several resources began, followed to their end on the list where the action was chosen."""

import re
from uuid import UUID

from flask import make_response, request, url_for
from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Task
from panel.pages.shared.area import SharedViews, get_endpoint_prefix, scope_account
from panel.services import tasks
from panel.web.htmx import is_partial, render, render_block
from panel.web.translation import gettext as _

VIEWS = SharedViews()
HEX_ID_PATTERN = re.compile(r"[0-9a-f]{32}")
MAX_FOLLOWED_TASKS = 100
"""As many as rows of the largest page: their ids fit into one address."""


@VIEWS.page("GET", "/follow", can="instances.view", endpoint="follow")
def show_followed_tasks():
    ids = decode_ids(request.args.get("ids", ""))
    rows = session.scalars(tasks.select_by_ids(ids, scope_account())).all()
    answer = make_response(render_block("shared/followed_tasks.html", "followed", **build_context(rows)))
    if not any(task.open for task in rows):
        answer.headers["HX-Trigger"] = "changed"
    return answer


def follow(resource_ids, since):
    """Return the context of the part that follows the open tasks of these resources which were requested since then.
    Older ones belong to other actions."""
    query = tasks.select_open_of_resources(list(resource_ids), scope_account()).where(Task.created_at >= since)
    return build_context(session.scalars(query.limit(MAX_FOLLOWED_TASKS)).all())


def build_context(rows):
    url = url_for(f"{get_endpoint_prefix()}tasks.follow", ids=encode_ids(row.id for row in rows))
    return {"followed_tasks": rows, "follow_url": url, "followed_names": find_names(rows)}


def find_names(rows):
    """Return the names of the instances among the resources of the tasks, by id."""
    query = select(Instance.id, Instance.display_name).where(Instance.id.in_(task.resource_id for task in rows))
    account = scope_account()
    return dict(session.execute(query.where(account.visible_rows(Instance)) if account else query).all())


def render_results(template, **context):
    """Return the results of a bulk action: the panel on the list for htmx, where the rows reload, else a page."""
    answer = render(template, "panel", **({"result_names": {}} | context))
    if is_partial():
        answer.headers["HX-Trigger"] = "changed"
    return answer


def describe_refused(count):
    return _("%(count)s refused.", count=count) if count else ""


def describe_unconfirmed(count):
    return _("Outcome unknown for %(count)s.", count=count) if count else ""


def encode_ids(ids):
    return ".".join(UUID(id_).hex for id_ in ids)


def decode_ids(text):
    """Return the ids in the text; what is no id is left out."""
    return [str(UUID(part)) for part in text.split(".")[:MAX_FOLLOWED_TASKS] if HEX_ID_PATTERN.fullmatch(part)]

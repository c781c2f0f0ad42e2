"""One action on the selected instances of a list, for the owner and for operators."""

from flask import request

from panel.auth.browser_session import get_current_actor
from panel.core import clock
from panel.core.errors import Invalid
from panel.pages.shared import followed_tasks
from panel.services import instances
from panel.web.bulk_forms import is_confirmed
from panel.web.htmx import render
from panel.web.translation import gettext as _
from panel.web.translation import ngettext, translate


def bulk_page(bulk_request, access=None, **urls):
    """Run the action and show the results: on the list itself for htmx, else on a page. A destroy is shown for
    confirmation first and repeated with the typed text.

    `urls`: the list (`back_url`) and this page (`bulk_url`).
    """
    action = instances.ACTIONS[bulk_request["action"]]
    if action.name == "destroy" and not is_confirmed(bulk_request["ids"], request.form):
        selected = instances.select_instances(bulk_request["ids"], access)
        if not selected:
            raise Invalid(_("These instances no longer exist."))
        return render("bulk/destroy.html", "panel", instances=selected, typed=request.form.get("typed"), **urls)
    since = clock.now()
    results = instances.run_bulk(actor=get_current_actor(), access=access, **bulk_request)
    started = [row["id"] for row in results if row["success"] and not action.takes_tag]
    context = followed_tasks.follow(started, since)
    tag = bulk_request.get("tag")
    label = translate(action.label) + (f" “{tag}”" if tag else "")
    context |= {
        "missing_message": _("These instances no longer exist."),
        "label": label,
        "summary": describe_counts(action, label, instances.count_bulk_results(results)),
    }
    return followed_tasks.render_results("bulk/results.html", results=results, **urls, **context)


def describe_counts(action, label, counts):
    count = ngettext("%(num)s instance", "%(num)s instances", counts["queued"])
    if action.takes_tag:
        done = _("%(action)s done for %(count)s.", action=label, count=count)
    else:
        done = _("%(action)s requested for %(count)s.", action=label, count=count)
    return f"{done} {followed_tasks.describe_refused(counts['refused'])}".rstrip()

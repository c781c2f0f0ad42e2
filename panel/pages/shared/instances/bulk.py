"""One action on the selected instances of a list, for the owner and for operators."""

from flask import request

from panel.auth.browser_session import get_current_actor
from panel.services import instances
from panel.web.bulk_forms import is_confirmed
from panel.web.htmx import render


def bulk_page(bulk_request, access=None, **urls):
    """Run the action and show the results. A destroy is shown for confirmation first and repeated with the typed text.

    `urls`: the list (`back_url`) and this page (`bulk_url`).
    """
    action = instances.ACTIONS[bulk_request["action"]]
    if action.name == "destroy" and not is_confirmed(bulk_request["ids"], request.form):
        selected = instances.select_instances(bulk_request["ids"], access)
        return render("bulk/destroy.html", instances=selected, typed=request.form.get("typed"), **urls)
    results = instances.run_bulk(actor=get_current_actor(), access=access, **bulk_request)
    counts = instances.count_bulk_results(results)
    return render(
        "bulk/results.html", results=results, action=action, tag=bulk_request.get("tag"), counts=counts, **urls
    )

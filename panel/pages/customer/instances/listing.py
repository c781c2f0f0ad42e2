"""The list of instances."""

from flask import request

from panel.auth.browser_session import get_current_access, has_permission, require_page_permission
from panel.core.db import session
from panel.models import Instance
from panel.pages.customer.instances import bp
from panel.schemas.constants import INSTANCE_STATES
from panel.services import instances, metrics, projects
from panel.services.instances.action_catalog import CUSTOMER_BULK_BUTTONS
from panel.web import charts
from panel.web.htmx import render
from panel.web.instance_search_form import search_or_empty
from panel.web.paging import Page

ORDERS = {"name": Instance.display_name, "size": Instance.ram, "age": Instance.id}


@bp.get("")
@require_page_permission("instances.view")
def index():
    state = request.args.get("state") if request.args.get("state") in INSTANCE_STATES else None
    search = request.args.get("search", "").strip()[:255]
    project_rows = (
        session.scalars(projects.listing(get_current_access())).all() if has_permission("projects.view") else []
    )
    project = next((row for row in project_rows if row.id == request.args.get("project")), None)
    query, search_error = search_or_empty(
        get_current_access(), search=search, state=state, project_id=project and project.id
    )
    all_rows = instances.select_list_rows(get_current_access())
    page = Page(query, orders=ORDERS, all_rows=all_rows, is_searched=bool(search))
    has_changing_instances = any(instance.state in ("pending", "migrating") for instance in page)
    context = {
        "page": page,
        "state": state,
        "search": search,
        "states": INSTANCE_STATES,
        "has_changing_instances": has_changing_instances,
    }
    context |= {"project": project, "projects": project_rows}
    context |= {"search_error": search_error, "actions": CUSTOMER_BULK_BUTTONS}
    context |= {"sparks": metrics.get_sparklines(page.rows), "spark": charts.build_sparkline}
    return render("customer/instances/index.html", "rows", **context)

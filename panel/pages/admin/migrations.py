"""Migrations of machines between hypervisors: starting them, and their history."""

from flask import Blueprint, abort, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.errors import Invalid
from panel.pages.admin import labels
from panel.schemas.base import In, Text
from panel.schemas.migrations import MIGRATION_STATUSES
from panel.services import hypervisors, instances, migrations
from panel.web.forms import Form
from panel.web.htmx import build_action_response, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.workflows import reachability

bp = Blueprint("admin_migrations", __name__, url_prefix="/admin")
NAVIGATION = NavigationEntry(
    "platform",
    "Migrations",
    "admin_migrations.index",
    icon="switch-horizontal",
    permission="admin:instances:read",
    position=20,
)
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"
FOLLOW_UP_ACTIONS = {
    "stop": (migrations.stop, lambda name: _("Stop of the migration of %(name)s requested.", name=name)),
    "restart": (migrations.restart, lambda name: _("Migration of %(name)s requested again.", name=name)),
    "rollback": (migrations.rollback, lambda name: _("Migration of %(name)s back requested.", name=name)),
    "complete": (migrations.enqueue_cleanup, lambda name: _("Deletion of old disks of %(name)s requested.", name=name)),
}


class TargetForm(In):
    hypervisor_id = Text(maximum=36, load_default=None)


@bp.get("/migrations")
@require_page_permission(READ_PERMISSION)
def index():
    status = request.args.get("status") if request.args.get("status") in MIGRATION_STATUSES else None
    page = Page(migrations.listing(status=status))
    return render(
        "admin/migrations/index.html",
        "rows",
        page=page,
        filtered=bool(status),
        statuses=labels.MIGRATION_STATUSES.items(),
    )


@bp.post("/migrations/<migration_id>/<action>")
@require_page_permission(WRITE_PERMISSION)
def afterwards(migration_id, action):
    act, message = FOLLOW_UP_ACTIONS.get(action) or abort(404)
    row = migrations.get(migration_id)
    if action in ("restart", "rollback"):
        reachability.check_source(row)
    act(row) if action == "stop" else act(row, actor=get_current_actor())
    return build_action_response(message(row.instance_name), url_for(".index"))


@bp.get("/instances/<instance_id>/move")
@require_page_permission(READ_PERMISSION)
def choose(instance_id):
    return form_page(instances.get(instance_id), Form(TargetForm, initial={}))


@bp.post("/instances/<instance_id>/move")
@require_page_permission(WRITE_PERMISSION)
def move(instance_id):
    instance, form = instances.get(instance_id), Form(TargetForm)

    def start(hypervisor_id):
        target = hypervisors.get(hypervisor_id, "hypervisor_id") if hypervisor_id else None
        reachability.check_node(instance.hypervisor)
        return migrations.start(instance, target=target, actor=get_current_actor())

    if form.submit(start):
        return redirect_to(url_for("admin_tasks.show", task_id=form.result.task_id))
    return form_page(instances.get(instance_id), form)


def form_page(instance, form):
    hypervisor_options = [(target.id, target.name, fault) for target, fault in migrations.list_targets(instance)]
    context = {
        "instance": instance,
        "hypervisor_options": hypervisor_options,
        "migrate_error": instances.action_error(instance, "migrate", by_operator=True),
    }
    return render(
        "admin/migrations/new.html", "form", status=form.status, form=form, reasons=instances.REASON_MESSAGES, **context
    )


@bp.post("/hypervisors/<hypervisor_id>/evacuate")
@require_page_permission("admin:hypervisors:write")
def evacuate(hypervisor_id):
    """Evacuate a hypervisor. Requires its name, because all its machines move."""
    hypervisor = hypervisors.get(hypervisor_id)
    if request.form.get("typed", "").strip() != hypervisor.name:
        error = _("Type %(name)s to confirm. Nothing was migrated.", name=hypervisor.name)
        raise Invalid(error, typed=error)
    task = migrations.evacuate(hypervisor, actor=get_current_actor())
    return redirect_to(url_for("admin_tasks.show", task_id=task.id))

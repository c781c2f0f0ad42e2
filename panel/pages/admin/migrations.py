"""Moving machines between hypervisors, and how the moves went."""

from flask import Blueprint, abort, request, url_for

from panel.auth.browser_session import actor, page_can
from panel.core.errors import Invalid
from panel.schemas.base import In, Text
from panel.schemas.migrations import STATUSES
from panel.services import hypervisors, instances, migrations
from panel.web.formatting import worded
from panel.web.forms import Form
from panel.web.htmx import did, go, render
from panel.web.paging import Page
from panel.workflows import reachability

bp = Blueprint("admin_migrations", __name__, url_prefix="/admin")
READ, WRITE = "admin:instances:read", "admin:instances:write"
AFTERWARDS = {
    "stop": (migrations.stop, "The move of {} is being stopped."),
    "restart": (migrations.restart, "{} is being moved again."),
    "rollback": (migrations.rollback, "{} is being moved back."),
    "complete": (migrations.clean, "What was left of {} is being removed."),
}


class Choice(In):
    hypervisor_id = Text(most=36, load_default=None)


@bp.get("/migrations")
@page_can(READ)
def index():
    status = request.args.get("status") if request.args.get("status") in STATUSES else None
    page = Page(migrations.listing(status=status))
    return render("admin/migrations/index.html", "rows", page=page, filtered=bool(status), statuses=worded(STATUSES))


@bp.post("/migrations/<migration_id>/<action>")
@page_can(WRITE)
def afterwards(migration_id, action):
    act, words = AFTERWARDS.get(action) or abort(404)
    row = migrations.get(migration_id)
    if action in ("restart", "rollback"):
        reachability.check_source(row)
    act(row) if action == "stop" else act(row, actor=actor())
    return did(words.format(row.instance_name), url_for(".index"))


@bp.get("/instances/<instance_id>/move")
@page_can(READ)
def choose(instance_id):
    return form_page(instances.get(instance_id), Form(Choice, known={}))


@bp.post("/instances/<instance_id>/move")
@page_can(WRITE)
def move(instance_id):
    instance, form = instances.get(instance_id), Form(Choice)

    def start(hypervisor_id):
        target = hypervisors.get(hypervisor_id, "hypervisor_id") if hypervisor_id else None
        reachability.check_node(instance.hypervisor)
        return migrations.start(instance, target=target, actor=actor())

    if form.submit(start):
        return go(url_for("admin_tasks.show", task_id=form.result.task_id))
    return form_page(instances.get(instance_id), form)


def form_page(instance, form):
    offered = [(target.id, target.name, fault) for target, fault in migrations.targets(instance)]
    context = {
        "instance": instance,
        "offered": offered,
        "why": instances.refusal(instance, "migrate", by_operator=True),
    }
    return render("admin/migrations/new.html", "form", status=form.status, form=form, words=instances.WORDS, **context)


@bp.post("/hypervisors/<hypervisor_id>/evacuate")
@page_can("admin:hypervisors:write")
def evacuate(hypervisor_id):
    """The name has to be typed: every machine of the host moves."""
    hypervisor = hypervisors.get(hypervisor_id)
    if request.form.get("typed", "").strip() != hypervisor.name:
        wrong = f"Type {hypervisor.name} to confirm. Nothing was moved."
        raise Invalid(wrong, typed=wrong)
    task = migrations.evacuate(hypervisor, actor=actor())
    return go(url_for("admin_tasks.show", task_id=task.id))

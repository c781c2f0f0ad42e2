"""Backup policies: the list, the form with a simulation, and the page of one."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_access, has_permission, require_page_permission
from panel.core import clock
from panel.core.db import session
from panel.models import BackupPolicy
from panel.schemas.backup_policies import DEFAULTS, KEEP_RULES, BackupPolicyIn, BackupPolicyPatch, build_fields
from panel.schemas.base import In, Name
from panel.services import accounts, backup_policies, instances
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, is_partial, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("backup_policies", __name__, url_prefix="/backup-policies")
NAVIGATION = NavigationEntry(
    "storage",
    "Backup policies",
    "backup_policies.index",
    icon="calendar",
    permission="backup_policies.view",
    position=50,
)
PALETTE_ACTIONS = (
    PaletteAction(
        "Create backup policy", "backup_policies.new", icon="plus", permission="backup_policies.manage", position=80
    ),
)
SEARCH_RESULTS = (
    SearchResults(
        "backup_policy",
        "Backup policies",
        icon="calendar",
        url=lambda row: url_for("backup_policies.show", policy_id=row.id),
    ),
)
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = (
    "backup_policies.view",
    "backup_policies.manage",
    "backup_policies.delete",
)
MAX_OFFERED_INSTANCES = 500
"""Maximum of instances that the form offers."""
INITIAL_VALUES = DEFAULTS | {"retention_count": 7, "keep_daily": 7, "keep_weekly": 4, "keep_monthly": 6}
"""What the form of a new policy proposes. The rules count once they are chosen."""
WEEKDAYS = (
    (1, lazy_gettext("Monday")),
    (2, lazy_gettext("Tuesday")),
    (3, lazy_gettext("Wednesday")),
    (4, lazy_gettext("Thursday")),
    (5, lazy_gettext("Friday")),
    (6, lazy_gettext("Saturday")),
    (0, lazy_gettext("Sunday")),
)
RULE_LABELS = {
    "keep_last": lazy_gettext("Newest"),
    "keep_within_days": lazy_gettext("Days with all backups"),
    "keep_daily": lazy_gettext("Daily"),
    "keep_weekly": lazy_gettext("Weekly"),
    "keep_monthly": lazy_gettext("Monthly"),
    "keep_yearly": lazy_gettext("Yearly"),
}
FIELD_LABELS = RULE_LABELS | {
    "full_backup_frequency": lazy_gettext("Frequency"),
    "full_backup_day": lazy_gettext("Day"),
    "full_backup_time": lazy_gettext("Time"),
    "max_incremental_chain": lazy_gettext("Incremental backups before a full one"),
    "backup_device": lazy_gettext("Disks"),
    "retention_mode": lazy_gettext("Keep"),
    "retention_count": lazy_gettext("Number of backups"),
}


EditForm = BackupPolicyPatch.from_dict({"name": Name(required=True)}, name="BackupPolicyEditForm")
SimulatedForm = In.from_dict(
    {name: field for name, field in build_fields(is_new=True).items() if name != "name"}, name="SimulatedPolicyForm"
)


def get_own(policy_id):
    return backup_policies.get(policy_id, get_current_access())


def get_timezone():
    return accounts.get(get_current_access().id).timezone


def drop_unused_rules(values):
    """Return the values without those of the mode of retention that was not chosen."""
    unused = {"gfs": {"retention_count": None}, "count": dict.fromkeys(KEEP_RULES, 0)}
    return values | unused.get(values.get("retention_mode"), {})


ORDERS = {"name": BackupPolicy.name}


@bp.get("")
@require_page_permission(VIEW_PERMISSION)
def index():
    access = get_current_access()
    page = Page(backup_policies.listing(access), orders=ORDERS)
    counts = backup_policies.count_instances(page.rows, access)
    return render("customer/backup_policies/index.html", "rows", page=page, counts=counts)


@bp.get("/new")
@require_page_permission(MANAGE_PERMISSION)
def new():
    return form_page(Form(BackupPolicyIn, initial=INITIAL_VALUES))


@bp.post("/new")
@require_page_permission(MANAGE_PERMISSION)
def create():
    """Create a policy. With `preview` only simulate it."""
    if "preview" in request.form:
        return preview_page(Form(BackupPolicyIn))
    access, form = get_current_access(), Form(BackupPolicyIn)
    timezone = get_timezone()
    if form.submit(lambda **values: backup_policies.create(access, timezone=timezone, **drop_unused_rules(values))):
        flash_message(_("Backup policy %(name)s created. Attach instances to it.", name=form.result.name))
        return redirect_to(url_for(".show", policy_id=form.result.id))
    return form_page(form)


@bp.get("/<policy_id>/edit")
@require_page_permission(MANAGE_PERMISSION)
def edit(policy_id):
    policy = get_own(policy_id)
    return form_page(Form(EditForm, initial=policy), policy)


@bp.post("/<policy_id>/edit")
@require_page_permission(MANAGE_PERMISSION)
def update(policy_id):
    """Change the policy. With `preview` only simulate it."""
    policy, form = get_own(policy_id), Form(EditForm)
    if "preview" in request.form:
        return preview_page(form, policy)
    if form.submit(lambda **values: backup_policies.update(policy, **drop_unused_rules(values))):
        flash_message(_("Backup policy saved."))
        return redirect_to(url_for(".show", policy_id=policy_id))
    return form_page(form, get_own(policy_id))


def preview_page(form, policy=None):
    """Render the form as it was sent; for htmx only the simulation."""
    form.sent = request.form
    return form_page(form, policy, "simulation" if is_partial() else None)


def form_page(form, policy=None, block="form"):
    context = {
        "policy": policy,
        "timezone": get_timezone(),
        "weekdays": WEEKDAYS,
        "rules": [(name, maximum) for name, (maximum, _meaning) in KEEP_RULES.items()],
        "labels": FIELD_LABELS,
        **simulate(form),
    }
    return render("customer/backup_policies/form.html", block, status=form.status, form=form, **context)


def simulate(form):
    """Return the simulation of the form's values, or why there is none."""
    if form.sent is None:
        names = SimulatedForm().fields
        values = {name: form.get_value(name) for name in names}
        values = {name: None if value == "" else value for name, value in values.items()}
        return {"simulation": run_simulation(**values), "simulation_errors": None}
    simulated_form = Form(SimulatedForm)
    if simulated_form.submit(run_simulation):
        return {"simulation": simulated_form.result, "simulation_errors": None}
    return {"simulation": None, "simulation_errors": simulated_form.errors}


def run_simulation(**values):
    policy = backup_policies.build(timezone=get_timezone(), **drop_unused_rules(values))
    return backup_policies.simulate(policy, clock.now())


@bp.get("/<policy_id>")
@require_page_permission(VIEW_PERMISSION)
def show(policy_id):
    policy, access = get_own(policy_id), get_current_access()
    attached = others = None
    if has_permission("instances.view"):
        attached = session.scalars(backup_policies.select_instances(policy, access)).all()
        available = backup_policies.select_available_instances(access)
        others = session.scalars(available.limit(MAX_OFFERED_INSTANCES)).all()
    context = {"attached": attached, "others": others, "simulation": backup_policies.simulate(policy, clock.now())}
    return render("customer/backup_policies/show.html", "live", policy=policy, **context)


@bp.post("/<policy_id>/<any(attach, detach):action>")
@require_page_permission(MANAGE_PERMISSION)
@audit_label("Attach to or detach from backup policy")
def change_instances(policy_id, action):
    policy, ids = get_own(policy_id), request.form.getlist("instance_ids")[:MAX_OFFERED_INSTANCES]
    for instance_id in ids:
        getattr(backup_policies, action)(policy, instances.get(instance_id, get_current_access()))
    if not ids:
        return build_action_response(_("Select an instance first."), url_for(".show", policy_id=policy_id), "warning")
    message = _("Instances attached.") if action == "attach" else _("Instances detached. Their backups stay.")
    return build_action_response(message, url_for(".show", policy_id=policy_id))


@bp.post("/<policy_id>/reset-failures")
@require_page_permission(MANAGE_PERMISSION)
@audit_label("Clear failures")
def reset_failures(policy_id):
    backup_policies.reset_failures(get_own(policy_id))
    return build_action_response(_("Failures cleared."), url_for(".show", policy_id=policy_id))


@bp.post("/<policy_id>/delete")
@require_page_permission(DELETE_PERMISSION)
def delete(policy_id):
    policy = get_own(policy_id)
    backup_policies.delete(policy)
    flash_message(_("Backup policy %(name)s deleted. Its backups stay.", name=policy.name))
    return redirect_to(url_for(".index"))

"""Backup policies of the platform and of customers, and the instances attached to them."""

from functools import partial

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import BackupPolicy, Instance
from panel.schemas.accounts import Email
from panel.schemas.backup_policies import DEFAULTS, AdminBackupPolicyIn, BackupPolicyPatch
from panel.schemas.base import In, Text
from panel.services import accounts, backup_destinations, backup_policies, instances
from panel.services.search_kinds import is_id
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_backup_policies", __name__, url_prefix="/admin/backup-policies")
NAVIGATION = NavigationEntry(
    "resources",
    "Backup policies",
    "admin_backup_policies.index",
    icon="calendar",
    permission="admin:instances:read",
    position=26,
)
SEARCH_RESULTS = (
    SearchResults(
        "backup_policy",
        "Backup policies",
        icon="calendar",
        url=lambda row_id: url_for("admin_backup_policies.show", policy_id=row_id),
    ),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"
SUGGESTED_RETENTION_COUNT = 7
WEEKDAYS = (
    lazy_gettext("Sunday"),
    lazy_gettext("Monday"),
    lazy_gettext("Tuesday"),
    lazy_gettext("Wednesday"),
    lazy_gettext("Thursday"),
    lazy_gettext("Friday"),
    lazy_gettext("Saturday"),
)
KEEP_RULE_LABELS = {
    "keep_last": lazy_gettext("Newest backups"),
    "keep_within_days": lazy_gettext("All of the last days"),
    "keep_daily": lazy_gettext("Daily backups"),
    "keep_weekly": lazy_gettext("Weekly backups"),
    "keep_monthly": lazy_gettext("Monthly backups"),
    "keep_yearly": lazy_gettext("Yearly backups"),
}


class OwnerForm(In):
    """The customer that gets a new policy. Empty for policies of the platform."""

    owner = Email(allow_none=True)


class StorageForm(In):
    """The destination of a policy of the platform. Empty: the first one of each hypervisor."""

    storage = Text(maximum=36, allow_none=True)


class AttachmentForm(In):
    """An instance, by its id or by a search that only it matches."""

    instance = Text(required=True, minimum=1)


ORDERS = {"name": BackupPolicy.name}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    search, scope = request.args.get("search", "")[:255], request.args.get("scope")
    is_platform = {"platform": True, "customers": False}.get(scope)
    page = Page(backup_policies.listing(search=search, is_platform=is_platform), orders=ORDERS)
    counts = backup_policies.count_instances(page)
    filtered = bool(search) or is_platform is not None
    return render("admin/backup_policies/index.html", "rows", page=page, counts=counts, filtered=filtered)


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return form_page(build_new_form(initial=DEFAULTS | {"retention_count": SUGGESTED_RETENTION_COUNT}))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = build_new_form()
    if form.submit(create_policy):
        flash_message(_("Policy %(name)s created. Now attach instances.", name=form.result.name))
        return redirect_to(url_for(".show", policy_id=form.result.id))
    return form_page(form)


def build_new_form(initial=None):
    return Form(partial(AdminBackupPolicyIn, exclude=("user_id",)), OwnerForm, StorageForm, initial=initial)


def create_policy(owner=None, storage=None, **values):
    if not owner:
        return backup_policies.create_plan(storage=storage, **values)
    if storage:
        sentence = _("Only policies of the platform have a destination.")
        raise Invalid(sentence, storage=sentence)
    account = accounts.find_by_email(owner)
    if account is None:
        raise Invalid(_("Customer not found."), owner=_("No account has this email address."))
    return backup_policies.create(account, timezone=account.timezone, **values)


def form_page(form, policy=None):
    context = {
        "form": form,
        "policy": policy,
        "weekdays": WEEKDAYS,
        "keep_rules": KEEP_RULE_LABELS,
        "destinations": session.execute(backup_destinations.select_names()).all(),
    }
    return render("admin/backup_policies/form.html", "form", status=form.status, **context)


@bp.get("/<policy_id>")
@require_page_permission(READ_PERMISSION)
def show(policy_id):
    return policy_page(policy_id, Form(AttachmentForm), "live")


def policy_page(policy_id, form, block):
    policy = backup_policies.get(policy_id)
    context = {
        "policy": policy,
        "page": Page(backup_policies.select_instances(policy)),
        "locations": backup_policies.list_default_locations(policy),
        "form": form,
    }
    return render("admin/backup_policies/show.html", block, status=form.status, **context)


@bp.get("/<policy_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def edit(policy_id):
    policy = backup_policies.get(policy_id)
    return form_page(build_edit_form(policy, initial=policy), policy)


@bp.post("/<policy_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def update(policy_id):
    form = build_edit_form(backup_policies.get(policy_id))
    if form.submit(lambda **values: backup_policies.update_plan(backup_policies.get(policy_id), **values)):
        flash_message(_("Policy %(name)s saved.", name=form.result.name))
        return redirect_to(url_for(".show", policy_id=policy_id))
    return form_page(form, backup_policies.get(policy_id))


def build_edit_form(policy, initial=None):
    return Form(BackupPolicyPatch, *([] if policy.account_id else [StorageForm]), initial=initial)


@bp.post("/<policy_id>/attach")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Attach to backup policy")
def attach(policy_id):
    form = Form(AttachmentForm)
    if form.submit(lambda instance: attach_instance(policy_id, instance)):
        flash_message(_("%(name)s attached.", name=form.result.display_name))
        return redirect_to(url_for(".show", policy_id=policy_id))
    return policy_page(policy_id, form, "form")


def attach_instance(policy_id, text):
    instance = find_instance(text.strip())
    try:
        backup_policies.attach(backup_policies.get(policy_id), instance)
    except Invalid as error:  # the field of the API is `instance_id`
        raise Invalid(error.message, instance=error.message) from None
    return instance


def find_instance(text):
    """Return the instance with this id, or the only one that the search finds. Raise Invalid otherwise."""
    if is_id(text) and (instance := session.get(Instance, text)):
        return instance
    try:
        rows = session.scalars(instances.listing(search=text).limit(2)).all()
    except Invalid as error:
        raise Invalid(error.message, instance=error.message) from None
    if len(rows) != 1:
        sentence = _("Several instances match. Enter the ID.") if rows else _("No instance matches.")
        raise Invalid(sentence, instance=sentence)
    return rows[0]


@bp.post("/<policy_id>/detach/<instance_id>")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Detach from backup policy")
def detach(policy_id, instance_id):
    backup_policies.detach(backup_policies.get(policy_id), instances.get(instance_id))
    return build_action_response(_("Instance detached. Its backups stay."), url_for(".show", policy_id=policy_id))


@bp.post("/instances/<instance_id>")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Attach to backup policy")
def choose(instance_id):
    """Attach the instance to the chosen policy, in place of the present one."""
    instance = instances.get(instance_id)
    present = backup_policies.map_policies([instance.id]).get(instance.id)
    chosen = request.form.get("policy_id", "")[:36]
    policy = backup_policies.get(chosen) if chosen else None
    if present and present is not policy:
        backup_policies.detach(present, instance)
    if policy:
        backup_policies.attach(policy, instance)
    text = _("Attached to policy %(name)s.", name=policy.name) if policy else _("The instance has no policy now.")
    return build_action_response(text, url_for("admin_instances.tab", instance_id=instance_id, tab="backups"))


@bp.post("/<policy_id>/reset-failures")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Clear failures")
def reset_failures(policy_id):
    backup_policies.reset_failures(backup_policies.get(policy_id))
    return build_action_response(_("Failures cleared."), url_for(".show", policy_id=policy_id))


@bp.post("/<policy_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(policy_id):
    policy = backup_policies.get(policy_id)
    name = policy.name
    backup_policies.delete(policy)
    flash_message(_("Policy %(name)s deleted. Its backups stay.", name=name))
    return redirect_to(url_for(".index"))

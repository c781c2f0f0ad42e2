"""Backup jobs of a location. The location's page lists them."""

from flask import Blueprint, url_for

from panel.auth.browser_session import require_page_permission
from panel.core.db import session
from panel.core.errors import Invalid
from panel.pages.admin.backup_policies import KEEP_RULE_LABELS, WEEKDAYS
from panel.schemas.backup_jobs import STORAGE_TEXT, build_job_fields
from panel.schemas.backup_jobs import WEEKDAYS as WEEKDAY_WORDS
from panel.schemas.backup_policies import DEFAULTS, KEEP_RULES, build_fields
from panel.schemas.base import In, Text, describe
from panel.services import backup_destinations, backup_policies, hypervisors
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("admin_backup_jobs", __name__, url_prefix="/admin/locations/<group_id>/backup-jobs")
WRITE_PERMISSION = "admin:hypervisors:write"
POLICY_FIELDS = {
    name: field
    for name, field in build_fields(is_new=True).items()
    if name not in ("name", "retention_mode", "retention_count")
}
JOB_FIELDS = {
    name: field
    for name, field in build_job_fields(is_new=True).items()
    if name in ("name", "plan_id", "enabled", "comment")
}
BackupJobForm = In.from_dict(
    POLICY_FIELDS
    | JOB_FIELDS
    | {
        "storage": Text(maximum=36, allow_none=True, **describe(STORAGE_TEXT)),
        "target_value": Text(maximum=36, allow_none=True, **describe("The only hypervisor, or nothing for all.")),
    },
    name="BackupJobForm",
)
SUGGESTED_VALUES = DEFAULTS | {"enabled": True, "keep_daily": 7}


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new(group_id):
    return form_page(group_id, Form(BackupJobForm, initial=SUGGESTED_VALUES))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create(group_id):
    group, form = hypervisors.get_group(group_id), Form(BackupJobForm)
    if form.submit(lambda **values: save(lambda **body: backup_policies.create_job(group, **body), values)):
        flash_message(_("Backup job %(name)s created.", name=form.result.name))
        return redirect_to(make_location_url(group_id))
    return form_page(group_id, form)


@bp.get("/<job_id>")
@require_page_permission(WRITE_PERMISSION)
def edit(group_id, job_id):
    job = backup_policies.get_job(hypervisors.get_group(group_id), job_id)
    initial = {name: getattr(job, name, None) for name in BackupJobForm().fields}
    initial |= {"storage": job.destination_id, "target_value": job.hypervisor_id}
    if job.retention_mode == "count":  # from its plan
        initial["keep_last"] = job.retention_count
    return form_page(group_id, Form(BackupJobForm, initial=initial), job)


@bp.post("/<job_id>")
@require_page_permission(WRITE_PERMISSION)
def update(group_id, job_id):
    job, form = backup_policies.get_job(hypervisors.get_group(group_id), job_id), Form(BackupJobForm)
    if form.submit(lambda **values: save(lambda **body: backup_policies.update_job(job, **body), values)):
        flash_message(_("Backup job %(name)s saved.", name=form.result.name))
        return redirect_to(make_location_url(group_id))
    return form_page(group_id, form, job)


@bp.post("/<job_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(group_id, job_id):
    job = backup_policies.get_job(hypervisors.get_group(group_id), job_id)
    name = job.name
    backup_policies.delete(job)
    return build_action_response(
        _("Backup job %(name)s deleted. Its backups stay.", name=name), make_location_url(group_id)
    )


def save(call, values):
    """Call the service with the body that the API has for the values of the form."""
    if values["full_backup_frequency"] == "weekly" and values["full_backup_day"] is None:
        raise Invalid(_("Choose the day of weekly backups."), full_backup_day=_("Choose the day of weekly backups."))
    try:
        return call(**build_body(**values))
    except Invalid as error:
        if "keep" in error.fields:
            raise Invalid(error.message, keep_last=error.message) from None
        raise


def build_body(*, plan_id, target_value, **values):
    """Return the body. Those who choose a plan leave everything to it that it has."""
    body = {name: values[name] for name in ("name", "enabled", "comment") if name in values}
    body |= {"plan_id": plan_id, "target_value": target_value, "target_type": "hypervisor" if target_value else "all"}
    if plan_id:
        return body
    weekday = [] if values["full_backup_frequency"] == "daily" else [WEEKDAY_WORDS[values["full_backup_day"]]]
    own = {name: values[name] for name in ("storage", "backup_device", "max_incremental_chain")}
    keep = {name: values[name] for name in KEEP_RULES}
    return body | own | {"schedule": " ".join([*weekday, values["full_backup_time"]]), "keep": keep}


def make_location_url(group_id):
    return url_for("admin_hypervisor_groups.edit", group_id=group_id)


def form_page(group_id, form, job=None):
    group = hypervisors.get_group(group_id)
    context = {
        "group": group,
        "job": job,
        "form": form,
        "plans": session.execute(backup_policies.select_platform_names()).all(),
        "destinations": session.execute(backup_destinations.select_names()).all(),
        "nodes": [(hypervisor.id, hypervisor.name) for hypervisor in group.hypervisors],
        "weekdays": WEEKDAYS,
        "keep_rules": KEEP_RULE_LABELS,
    }
    return render("admin/backup_jobs/form.html", "form", status=form.status, **context)

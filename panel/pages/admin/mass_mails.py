"""Mass mails: the list, the form, and a page for each with its preview and progress."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.core import mail
from panel.core.db import session
from panel.schemas.mass_mails import MassMailIn
from panel.services import hypervisors, mass_mail_templates, mass_mails
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_mass_mails", __name__, url_prefix="/admin/mass-mails")
READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
NAVIGATION = NavigationEntry(
    "customers",
    "Mass mails",
    "admin_mass_mails.index",
    icon="send",
    permission=READ_PERMISSION,
    position=95,
    further_blueprints=("admin_mass_mail_templates",),
)
PALETTE_ACTIONS = (
    PaletteAction("Write mass mail", "admin_mass_mails.new", icon="plus", permission=WRITE_PERMISSION, position=310),
)
STATUS_LABELS = {
    "draft": lazy_gettext("Draft"),
    "sending": lazy_gettext("Sending"),
    "paused": lazy_gettext("Paused"),
    "sent": lazy_gettext("Sent"),
}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    return render("admin/mass_mails/index.html", "rows", page=Page(mass_mails.listing()), statuses=STATUS_LABELS)


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    """Show the form, with subject and text of the template that was chosen."""
    initial = {"mails_per_minute": 60}
    template_id = request.args.get("template_id")
    if template_id:
        template = mass_mail_templates.get(template_id)
        initial |= {"subject": template.subject, "text": template.text}
    return form_page(Form(MassMailIn, initial=initial), template_id)


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(MassMailIn)
    if form.submit(mass_mails.create):
        return redirect_to(url_for(".show", mass_mail_id=form.result.id))
    return form_page(form)


@bp.get("/<mass_mail_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def edit(mass_mail_id):
    row = mass_mails.get(mass_mail_id)
    initial = {"subject": row.name, **{name: getattr(row, name) for name in ("text", "group_id", "mails_per_minute")}}
    return form_page(Form(MassMailIn, initial=initial), mass_mail=row)


@bp.post("/<mass_mail_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def update(mass_mail_id):
    row = mass_mails.get(mass_mail_id)
    form = Form(MassMailIn)
    if form.submit(lambda **changes: mass_mails.update_mass_mail(row, **changes)):
        return redirect_to(url_for(".show", mass_mail_id=row.id))
    return form_page(form, mass_mail=row)


def form_page(form, template_id=None, mass_mail=None):
    customers, suspended = mass_mails.count_recipients()
    return render(
        "admin/mass_mails/form.html",
        "form",
        status=form.status,
        form=form,
        mass_mail=mass_mail,
        customers=customers,
        suspended=suspended,
        locations=session.execute(hypervisors.select_group_names()).all(),
        templates=session.execute(mass_mail_templates.select_names()).all(),
        template_id=template_id,
    )


@bp.get("/<mass_mail_id>")
@require_page_permission(READ_PERMISSION)
def show(mass_mail_id):
    row = mass_mails.get(mass_mail_id)
    recipients, suspended = mass_mails.count_recipients(row.group_id) if row.status == "draft" else (row.total, 0)
    subject, text = mass_mails.preview(row)
    return render(
        "admin/mass_mails/show.html",
        "live",
        mass_mail=row,
        subject=subject,
        paragraphs=mail.split_paragraphs(text),
        recipients=recipients,
        suspended=suspended,
        statuses=STATUS_LABELS,
    )


@bp.post("/<mass_mail_id>/start")
@require_page_permission(WRITE_PERMISSION)
def start(mass_mail_id):
    row = mass_mails.start(mass_mails.get(mass_mail_id))
    return build_action_response(_("Sending started."), url_for(".show", mass_mail_id=row.id))


@bp.post("/<mass_mail_id>/pause")
@require_page_permission(WRITE_PERMISSION)
def pause(mass_mail_id):
    row = mass_mails.pause(mass_mails.get(mass_mail_id))
    return build_action_response(_("Sending paused."), url_for(".show", mass_mail_id=row.id))


@bp.post("/<mass_mail_id>/resume")
@require_page_permission(WRITE_PERMISSION)
def resume(mass_mail_id):
    row = mass_mails.resume(mass_mails.get(mass_mail_id))
    return build_action_response(_("Sending resumed."), url_for(".show", mass_mail_id=row.id))


@bp.post("/<mass_mail_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(mass_mail_id):
    row = mass_mails.get(mass_mail_id)
    mass_mails.delete_mass_mail(row)
    flash_message(_("Mass mail %(name)s deleted.", name=row.name))
    return redirect_to(url_for(".index"))

"""Templates of mass mails: the list and the form."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.core.errors import NotFound
from panel.schemas.mass_mail_templates import MassMailTemplateIn
from panel.services import mass_mail_templates, mass_mails
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import PaletteAction
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_mass_mail_templates", __name__, url_prefix="/admin/mass-mail-templates")
READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
PALETTE_ACTIONS = (
    PaletteAction(
        "Add template of mass mails",
        "admin_mass_mail_templates.new",
        icon="plus",
        permission=WRITE_PERMISSION,
        position=315,
    ),
)


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    return render("admin/mass_mail_templates/index.html", "rows", page=Page(mass_mail_templates.listing()))


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    """Show the form, with subject and text of the mass mail that is to be saved as a template."""
    return form_page(Form(MassMailTemplateIn, initial=find_mass_mail_texts()))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(MassMailTemplateIn)
    if form.submit(mass_mail_templates.create):
        flash_message(_("Template %(name)s added.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return form_page(form)


@bp.get("/<mass_mail_template_id>")
@require_page_permission(READ_PERMISSION)
def edit(mass_mail_template_id):
    row = mass_mail_templates.get(mass_mail_template_id)
    return form_page(Form(MassMailTemplateIn, initial=row), row)


@bp.post("/<mass_mail_template_id>")
@require_page_permission(WRITE_PERMISSION)
def update(mass_mail_template_id):
    row = mass_mail_templates.get(mass_mail_template_id)
    form = Form(MassMailTemplateIn)
    if form.submit(lambda **changes: mass_mail_templates.update(row, **changes)):
        flash_message(_("Template %(name)s saved.", name=row.name))
        return redirect_to(url_for(".index"))
    return form_page(form, row)


@bp.post("/<mass_mail_template_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(mass_mail_template_id):
    row = mass_mail_templates.get(mass_mail_template_id)
    mass_mail_templates.delete(row)
    return build_action_response(_("Template %(name)s deleted.", name=row.name), url_for(".index"))


def find_mass_mail_texts():
    try:
        row = mass_mails.get(request.args.get("mass_mail_id"))
    except NotFound:
        return {}
    return {"subject": row.name, "text": row.text}


def form_page(form, row=None):
    return render("admin/mass_mail_templates/form.html", "form", status=form.status, form=form, mail_template=row)

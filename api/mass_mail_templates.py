"""Templates of mass mails."""

from api import kit
from panel.schemas.base import PageQuery
from panel.schemas.mass_mail_templates import MassMailTemplateIn, MassMailTemplateOut, MassMailTemplatePatch
from panel.services import mass_mail_templates

admin = kit.Admin("mass_mail_template", __name__, description="Templates of mass mails")
READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
PATH = "/mass-mail/template/<mass_mail_template_id>"


@admin.get(
    "/mass-mail/templates",
    op="list",
    can=READ_PERMISSION,
    query=PageQuery,
    out=kit.build_admin_page_schema(MassMailTemplateOut),
)
def listing():
    """List templates of mass mails, by name.

    Send a template's `subject` and `text` to `POST /api/v1/mass-mail` to use it.
    """
    return kit.paginate(mass_mail_templates.listing())


@admin.post("/mass-mail/templates", op="create", can=WRITE_PERMISSION, body=MassMailTemplateIn, out=MassMailTemplateOut)
def create(body):
    """Create a template of mass mails.

    Returns 422 under `name` if there is one with this name, under `subject` or `text` for an unknown placeholder.
    """
    kit.set_message("Template created.")
    return mass_mail_templates.create(**body)


@admin.get(PATH, op="get", can=READ_PERMISSION, out=MassMailTemplateOut)
def show(mass_mail_template_id):
    """Get a template of mass mails.

    Returns 404 if it does not exist.
    """
    return mass_mail_templates.get(mass_mail_template_id)


@admin.patch(PATH, op="update", can=WRITE_PERMISSION, body=MassMailTemplatePatch, out=MassMailTemplateOut)
def update(body, mass_mail_template_id):
    """Update a template of mass mails.

    Only the fields you send are changed. Mass mails that were made from it stay as they are.
    """
    kit.set_message("Template updated.")
    return mass_mail_templates.update(mass_mail_templates.get(mass_mail_template_id), **body)


@admin.delete(PATH, op="delete", can=WRITE_PERMISSION)
def delete(mass_mail_template_id):
    """Delete a template of mass mails.

    Mass mails that were made from it stay.
    """
    mass_mail_templates.delete(mass_mail_templates.get(mass_mail_template_id))
    kit.set_message("Template deleted.")

"""Texts of mails."""

from api import kit
from panel.schemas.mail_templates import MailTemplateOut, MailTemplatePatch
from panel.services import mail_templates

admin = kit.Admin("email_template", __name__, description="Texts of mails")
READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
PATH = "/email-template/<email_template_id>"


@admin.get("/email-templates", op="list", can=READ_PERMISSION, out=MailTemplateOut(many=True))
def listing():
    """List the texts of all kinds of mails.

    Each kind occurs once for each language. Texts that no operator has changed are the built-in ones.
    """
    return mail_templates.list_all()


@admin.get(PATH, op="get", can=READ_PERMISSION, out=MailTemplateOut)
def show(email_template_id):
    """Get the text of a kind of mail in one language.

    Returns 404 if it does not exist.
    """
    return mail_templates.get(email_template_id)


@admin.patch(PATH, op="update", can=WRITE_PERMISSION, body=MailTemplatePatch, out=MailTemplateOut)
def update(body, email_template_id):
    """Change subject or text of a kind of mail.

    Null restores the built-in one. Returns 422 under `subject` or `text` for an unknown placeholder, and for a text
    without `{link}`. If a text cannot be used, the built-in one is sent.
    """
    kit.set_message("Mail template updated.")
    return mail_templates.update(email_template_id, **body)

"""Mail templates: the kinds of mails, and a form for each language with a preview."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.core import languages
from panel.schemas.mail_templates import MailTemplatePatch
from panel.services import mail_templates
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.translation import gettext as _

bp = Blueprint("admin_mail_templates", __name__, url_prefix="/admin/mail-templates")
READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
NAVIGATION = NavigationEntry(
    "control", "Mail templates", "admin_mail_templates.index", icon="file-text", permission=READ_PERMISSION, position=34
)


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    rows = mail_templates.list_all()
    return render("admin/mail_templates/index.html", rows=rows, languages=dict(languages.list_language_names()))


@bp.get("/<template_id>")
@require_page_permission(READ_PERMISSION)
def edit(template_id):
    template = mail_templates.get(template_id)
    return template_page(template, Form(MailTemplatePatch, initial=template), (template.subject, template.text))


@bp.post("/<template_id>")
@require_page_permission(WRITE_PERMISSION)
def change(template_id):
    """Save the text, or only show its preview."""
    template = mail_templates.get(template_id)
    form = Form(MailTemplatePatch)
    if "preview" in request.form:
        is_valid = form.submit(lambda **texts: check(template, **texts))
        return template_page(template, form, form.result if is_valid else None, "form")
    if form.submit(lambda **texts: mail_templates.update(template_id, **texts)):
        flash_message(_("Mail template saved."))
        return redirect_to(url_for(".edit", template_id=template_id))
    return template_page(template, form, None, "form")


@bp.post("/<template_id>/reset")
@require_page_permission(WRITE_PERMISSION)
def reset(template_id):
    mail_templates.update(template_id, subject=None, text=None)
    return build_action_response(_("The built-in text is back."), url_for(".edit", template_id=template_id))


def check(template, subject=None, text=None):
    """Return subject and text if they may be saved. An empty one stands for the built-in one."""
    default_subject, default_text = mail_templates.build_default(template.kind, template.language)
    subject, text = subject or default_subject, text or default_text
    mail_templates.ensure_valid(template.kind, subject, text)
    return subject, text


def template_page(template, form, texts, block=None):
    preview = texts and mail_templates.preview(template.kind, template.language, *texts)
    context = {"mail_text": template, "form": form, "preview": preview}
    context["language"] = languages.get_language_name(template.language)
    return render("admin/mail_templates/edit.html", block, status=form.status, **context)

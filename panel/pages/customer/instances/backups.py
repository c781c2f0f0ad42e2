"""Back up an instance, and attach it to a backup policy."""

from flask import request

from panel.auth.browser_session import get_current_access, get_current_actor, require_page_permission
from panel.pages.customer.instances import bp
from panel.pages.shared.area import get_instance, tab_url
from panel.pages.shared.instances.show import INSTANCE_TEMPLATES, build_context
from panel.schemas.instance_backups import InstanceBackupIn
from panel.services import backup_policies, instance_backups
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.translation import gettext as _


@bp.post("/<instance_id>/backups")
@require_page_permission("instances.backups")
@audit_label("Back up")
def back_up(instance_id):
    instance, form = get_instance(instance_id), Form(InstanceBackupIn)
    if form.submit(lambda **values: instance_backups.create(instance, actor=get_current_actor(), **values)):
        flash_message(_("Backup requested."))
        return redirect_to(tab_url(instance, "backups"))
    tab = build_context(instance_id, "backups", form=form)
    return render(INSTANCE_TEMPLATES[""], "live", status=form.status, **tab)


@bp.post("/<instance_id>/backup-policy/<any(attach, detach):action>")
@require_page_permission("backup_policies.manage")
@audit_label("Attach to or detach from backup policy")
def change_policy(instance_id, action):
    instance = get_instance(instance_id, is_suspended_allowed=True)
    policy = backup_policies.get(request.form.get("policy_id", "")[:36], get_current_access())
    getattr(backup_policies, action)(policy, instance)
    message = _("Policy attached.") if action == "attach" else _("Policy detached.")
    return build_action_response(message, tab_url(instance, "backups"))

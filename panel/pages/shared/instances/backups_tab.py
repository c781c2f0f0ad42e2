"""The context of the tab with an instance's backups and backup policy."""

from panel.core.db import session
from panel.pages.shared.area import has_permission, permission_error, scope_account
from panel.pages.shared.backup_timeline import build_timeline
from panel.pages.shared.backups import build_rows_context
from panel.pages.shared.instances.media import find_error_message
from panel.schemas.instance_backups import InstanceBackupIn
from panel.services import backup_policies, instance_backups, instances, settings
from panel.web.forms import Form
from panel.web.paging import Page


def build_context(instance):
    """Return the context of the tab."""
    page = Page(instance_backups.listing(scope_account(), instance_id=instance.id))
    suspended = find_error_message(lambda: instances.ensure_not_suspended(instance))
    error = suspended or find_error_message(lambda: instance_backups.get_new_backup_destination(instance))
    policy, may_view = backup_policies.find_attached(instance), has_permission("backup_policies.view")
    offered = [] if policy or not may_view else session.scalars(backup_policies.listing(scope_account())).all()
    return {
        "page": page,
        "timeline": build_timeline(instance_id=instance.id) if scope_account() else None,
        "form": Form(InstanceBackupIn),
        "backup_error": permission_error("instances.backups") or error,
        "policy": policy,
        "jobs": backup_policies.map_jobs([instance])[instance.id],
        "managed_price": settings.get().managed_backup_price if instance.group.managed_backups_billed else 0,
        "policies": [(row.id, row.name) for row in offered],
        **build_rows_context(page.rows),
    }

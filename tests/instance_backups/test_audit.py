"""Backups in the audit log."""

import pytest

from panel.web import audit_view


@pytest.mark.parametrize(
    ("action", "label"),
    [
        ("user.instance.create_backup", "Back up"),
        ("admin.instance.restore_backup", "Restore backup"),
        ("user.instance.protect_backup", "Protect backup"),
        ("user.instance.delete_backup", "Delete backup"),
        ("user.backup.destroy", "Delete backups"),
        ("admin.backup.destroy", "Delete backups"),
        ("admin.instance.reset_backup_chain", "Reset backup chain"),
        ("admin.backup_storage.test", "Test backup destination"),
        ("user.instance_backup_policy.attach_instance", "Attach to backup policy"),
        ("admin.backup_operation.reconcile", "Reconcile backup operation"),
        ("instances.back_up", "Back up"),
        ("backups.retry", "Back up"),
        ("backups.restore", "Restore backup"),
        ("backups.delete_selected", "Delete backups"),
        ("backups.create_image", "Create image"),
        ("backup_policies.reset_failures", "Clear failures"),
    ],
)
def test_backup_actions_have_labels(rolled_back_app, action, label):
    assert audit_view.find_label(action) == label


def test_audit_log_names_the_backup(api_as, path, back_up):
    backup = back_up(name="nightly")
    api_as("owner", "PATCH", f"{path}/backup/{backup['id']}/protected", json={"protected": True})
    entry = api_as("admin", "GET", "/api/v1/system/admin-logs").json["data"][0]
    assert (entry["action"], entry["object_type"], entry["object_name"]) == (
        "user.instance.protect_backup",
        "instance_backup",
        "nightly",
    )
    assert (entry["changes"]["fields"], entry["person"]) == (["protected"], "owner@example.com")

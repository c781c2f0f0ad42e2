"""Customers read labels in their audit log, never names of columns."""

import ast
import importlib
import pkgutil

import panel.schemas
from panel.core.db import Model
from panel.models import Account
from panel.schemas.base import In
from panel.web.audit_labels import OBJECT_TYPE_LABELS
from panel.web.field_labels import FIELD_LABELS, label_fields
from tests.support.product_code import product_modules

INTERNAL_FIELDS = set(
    """
    access_token action address allocated amount arguments attached attempts backup_id based_on_backup_id capacity
    based_on_rbs_backup_time billing_mode boot_ends_at browser_language bytes bytes_done bytes_in bytes_out
    bytes_total cancel_requested_at catalog_key chain_reason changes changing_since charge checked_at
    checklist_dismissed_at checkpoint close_reason closed command_number completed_at consistency damaged data day
    delete_claimed_at delete_dispatched_at delete_task_id deployed deployed_at destroy_attempts disks
    download_reset_at ended_at ended_message ended_reason ends_at entries_count error error_at error_message
    ever_attached exit_code expected_sha256 failure_count failures fanned_out_at fields files_key finished_at
    fired_at growing_to has_leftover has_screenshot hours installed_at instances_count interface_id invitation_hash
    invited_at is_locked is_timeout_pending last_error last_hour last_login_at last_run_at last_seen_at leftover
    lock log logs logs_at logs_error message metered_at metered_bytes metered_price metered_until migrating
    missing_at missing_candidate_at missing_confirmed_at missing_on_node needs_posting next_attempt_at
    next_delete_at next_destroy_at next_run_at no_data_since notified_at number opened_at order order_key ordering
    parent_backup_id path period plan platform_checklist_dismissed_at power_reported_at presented_host_key
    rbs_backup_id rbs_backup_time rbs_namespace reason rebuilding received reference requested_at reset_disk_ids
    result resume_power retained_until rules_count run_position sampled_at seconds seen_at sent sent_at sent_up_to
    source_backup_at source_backup_id ssh_host_key started_at started_cpu_cores started_ram starts_at state
    state_changed_at statistics subject support_checked_at task_id task_running template text topology_pending
    totp_step transition unsupported updated_at usage used_cpu_cores used_instances used_ram used_storage user
    user_agent value verification_status verified_at volumes
    """.split()  # noqa: SIM905  (a list of them is one name a line)
)
"""Fields that the panel changes by itself, and those of rows that customers do not change. They are not shown."""


def list_columns_of_customers():
    """Return the columns and many-to-many relations of rows with an owner and of their parts."""
    names = set()
    for mapper in Model.registry.mappers:
        model = mapper.class_
        if model is Account or model.is_audit_part or hasattr(model, "account_id") or hasattr(model, "owner_id"):
            names |= set(mapper.column_attrs.keys())
            names |= {relation.key for relation in mapper.relationships if relation.secondary is not None}
    return names


def list_body_fields():
    """Return the attributes that the bodies of operations set."""
    for module in pkgutil.iter_modules(panel.schemas.__path__, "panel.schemas."):
        importlib.import_module(module.name)
    schemas = [In]
    for schema in schemas:
        schemas += schema.__subclasses__()
    return {field.attribute or name for schema in schemas for name, field in schema().declared_fields.items()}


def list_assigned_attributes():
    """Return the attributes that code of web processes assigns, and the fields that it tracks by name."""
    names = set()
    for module in product_modules():
        if module.name.startswith("panel."):
            for node in module.nodes:
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    names.add(node.attr)
    return names


def list_tracked_fields():
    """Return the fields that calls of `audit.track` name."""
    calls = (node for module in product_modules() for node in module.nodes if isinstance(node, ast.Call))
    tracked = (call for call in calls if getattr(call.func, "attr", "") == "track")
    values = (keyword.value for call in tracked for keyword in call.keywords if keyword.arg == "fields")
    return {name for value in values for name in ast.literal_eval(value)}


def test_fields_of_audit_entries_have_labels(app):  # the app imports the schemas of all operations
    changeable = list_columns_of_customers() & (list_body_fields() | list_assigned_attributes())
    assert changeable - FIELD_LABELS.keys() == INTERNAL_FIELDS
    assert {"addresses", "interfaces"} <= list_tracked_fields()
    assert list_tracked_fields() - {"grants"} <= FIELD_LABELS.keys()  # grants are of a location, which has no owner


def test_alert_rules_and_channels_have_labels():
    assert {"alert_rule", "notification_channel"} <= OBJECT_TYPE_LABELS.keys()


def test_labels_are_listed_once_and_internal_fields_hidden():
    assert label_fields(["ipv4", "ipv6", "task_running", "display_name"]) == ["IP addresses", "Name"]


def test_customer_log_page_has_labels_of_fields(browser_as, api_as, cast):
    instance = cast.instance()
    api_as("owner", "PATCH", f"/api/instance/{instance.id}", json={"notes": "x", "enable_smtp": True})
    page = browser_as("owner").get("/activity/log").text
    assert "Notes" in page
    assert "enable_smtp" not in page

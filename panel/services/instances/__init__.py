"""Instances: which actions there are, and when they are allowed. Callers have been authorized and found the instance
through its owner."""

from panel.services.instances import rescue
from panel.services.instances.action_catalog import ACTIONS
from panel.services.instances.actions import deploy, destroy, find_last_deploy, run_power_action
from panel.services.instances.bulk import count_bulk_results, get_bulk_status, run_bulk, select_instances
from panel.services.instances.create import create
from panel.services.instances.drives import mount, unmount
from panel.services.instances.first_boot import image_error
from panel.services.instances.guest import find_guest_report, guest_access_error, push_keys, reset_password
from panel.services.instances.hardware_options import secure_boot_error, set_secure_boot, set_tpm, set_vnc, tpm_error
from panel.services.instances.plans import change_plan
from panel.services.instances.read import (
    find_by_id,
    get,
    get_self_provisioned_totals,
    get_simple_instances,
    listing,
    select_addresses,
    select_disks,
    select_list_rows,
    select_rows,
    select_state_counts,
    select_with_problems,
)
from panel.services.instances.reinstall import reinstall
from panel.services.instances.suspension import suspend, unsuspend
from panel.services.instances.tags import set_tags
from panel.services.instances.update import update
from panel.services.state_machine import BLOCKED_IN_STATE, REASON_MESSAGES, action_error, ensure_not_suspended

__all__ = [
    "ACTIONS",
    "BLOCKED_IN_STATE",
    "REASON_MESSAGES",
    "action_error",
    "change_plan",
    "count_bulk_results",
    "create",
    "deploy",
    "destroy",
    "ensure_not_suspended",
    "find_by_id",
    "find_guest_report",
    "find_last_deploy",
    "get",
    "get_bulk_status",
    "get_self_provisioned_totals",
    "get_simple_instances",
    "guest_access_error",
    "image_error",
    "listing",
    "mount",
    "push_keys",
    "reinstall",
    "rescue",
    "reset_password",
    "run_bulk",
    "run_power_action",
    "secure_boot_error",
    "select_addresses",
    "select_disks",
    "select_instances",
    "select_list_rows",
    "select_rows",
    "select_state_counts",
    "select_with_problems",
    "set_secure_boot",
    "set_tags",
    "set_tpm",
    "set_vnc",
    "suspend",
    "tpm_error",
    "unmount",
    "unsuspend",
    "update",
]

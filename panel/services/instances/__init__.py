"""Instances: which actions there are, and when they are allowed. Callers have been authorised and found the instance
through its owner."""

from panel.services.instances import rescue
from panel.services.instances.action_catalog import ACTIONS
from panel.services.instances.actions import deploy, destroy, find_last_deploy, run_power_action
from panel.services.instances.bulk import count_results as bulk_counts
from panel.services.instances.bulk import result_status as bulk_status
from panel.services.instances.bulk import run_bulk, select_instances
from panel.services.instances.create import create
from panel.services.instances.drives import mount, unmount
from panel.services.instances.first_boot import image_error
from panel.services.instances.guest import find_guest_report, guest_access_error, push_keys, reset_password
from panel.services.instances.hardware_options import secure_boot_error, tpm_error
from panel.services.instances.hardware_options import set_secure_boot as switch_secure_boot
from panel.services.instances.hardware_options import set_tpm as switch_tpm
from panel.services.instances.hardware_options import set_vnc as switch_vnc
from panel.services.instances.plans import change_plan
from panel.services.instances.read import (
    find_by_id,
    get,
    get_self_provisioned_totals,
    listing,
    select_addresses,
    select_disks,
    select_rows,
    select_state_counts,
    simple_instances,
    with_problems,
)
from panel.services.instances.reinstall import reinstall
from panel.services.instances.suspension import suspend, unsuspend
from panel.services.instances.tags import set_tags
from panel.services.instances.update import update
from panel.services.state_machine import BLOCKED_IN_STATE, REASONS, action_error, ensure_not_suspended

__all__ = [
    "ACTIONS",
    "BLOCKED_IN_STATE",
    "REASONS",
    "action_error",
    "bulk_counts",
    "bulk_status",
    "change_plan",
    "create",
    "deploy",
    "destroy",
    "ensure_not_suspended",
    "find_by_id",
    "find_guest_report",
    "find_last_deploy",
    "get",
    "get_self_provisioned_totals",
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
    "select_rows",
    "select_state_counts",
    "set_tags",
    "simple_instances",
    "suspend",
    "switch_secure_boot",
    "switch_tpm",
    "switch_vnc",
    "tpm_error",
    "unmount",
    "unsuspend",
    "update",
    "with_problems",
]

"""How a failed task is tried again: by the page's own request for the same action, so that it has the same checks.

What cannot be repeated from what the task recorded leads to the form of the action.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from flask import current_app, url_for
from sqlalchemy import select

from panel.auth import browser_session
from panel.core.db import session
from panel.models import (
    Certificate,
    DockerDeployment,
    Instance,
    MediaDownload,
    Microvm,
    MicrovmSnapshot,
    Snapshot,
    Task,
    Volume,
    VolumeSnapshot,
)
from panel.pages.shared.area import get_endpoint_prefix
from panel.services.instances.action_catalog import POWER_ACTIONS
from panel.web.translation import gettext as _
from panel.web.translation import translate


@dataclass(frozen=True)
class Request:
    """A request of a page: its endpoint without the area, and what it sends."""

    endpoint: str
    values: Mapping[str, Any]
    fields: Mapping[str, Any] = field(default_factory=dict)
    confirmation: str | None = None
    is_page: bool = False
    """Whether it is the page of the form, where people enter again what no task records."""
    is_form: bool = False
    """Whether the answer to a wrong field is a page."""


@dataclass(frozen=True)
class Retry:
    url: str
    error: str | None
    request: Request


def build_instance_request(
    view: str, *, is_page: bool = False, **values: str
) -> Callable[[Task, Instance], Request | None]:
    """Return a builder of a request about the task's instance."""
    return lambda task, instance: Request(f"instances.{view}", {"instance_id": instance.id, **values}, is_page=is_page)


def repeat_power_action(task: Task, instance: Instance) -> Request:
    action = next(action for action in POWER_ACTIONS if task.kind == f"instance_{action.name}")
    question = action.get_confirmation(instance)
    return Request(
        "instances.power",
        {"instance_id": instance.id, "action": action.name},
        confirmation=translate(question) if question else None,
    )


def repeat_snapshot(task: Task, instance: Instance) -> Request | None:
    """Repeat an action on a snapshot. A new snapshot with the name of a failed one replaces it."""
    snapshot = session.get(Snapshot, task.arguments.get("snapshot_id", ""))
    if snapshot is None:
        return None
    values = {"instance_id": instance.id, "name": snapshot.name}
    if task.kind == "snapshot_rollback":
        return Request("instances.choose_rollback", values, is_page=True)
    if task.kind == "snapshot_delete":
        question = _("Delete snapshot %(name)s? The instance does not change.", name=snapshot.name)
        return Request("instances.delete_snapshot", values, confirmation=question)
    fields = {"snapname": snapshot.name, "description": snapshot.description or ""}
    fields |= {"vmstate": "true"} if snapshot.vmstate else {}
    return Request("instances.take", {"instance_id": instance.id}, fields, is_form=True)


def repeat_disk_action(task: Task, instance: Instance) -> Request | None:
    disk = next((disk for disk in instance.disks if disk.id == task.arguments.get("disk_id")), None)
    if disk is None:
        return None
    action = task.kind.removeprefix("disk_")
    question = _("Delete this disk? Its data is lost.") if action == "delete" else None
    values = {"instance_id": instance.id, "disk_id": disk.id, "action": action}
    return Request("instances.disk", values, confirmation=question)


def repeat_drive_change(task: Task, instance: Instance) -> Request:
    view = task.kind.removeprefix("iso_")
    fields = {"iso_id": task.arguments["iso_id"]} if view == "mount" else {}
    return Request(f"instances.{view}", {"instance_id": instance.id, "slot": task.arguments["slot"]}, fields)


def repeat_docker_action(task: Task, instance: Instance) -> Request | None:
    if task.kind == "docker_install":
        return Request("instances.install_docker", {"instance_id": instance.id})
    deployment_id = task.arguments.get("deployment_id", "")
    deployment = session.get(DockerDeployment, deployment_id) if deployment_id else None
    if deployment is None or deployment.instance_id != instance.id:
        return None
    action = {"docker_deploy": "retry", "docker_probe": "check"}.get(task.kind) or task.arguments["action"]
    return Request("instances.use_app", {"instance_id": instance.id, "deployment_id": deployment.id, "action": action})


def repeat_backup(task: Task, instance: Instance) -> Request:
    if get_endpoint_prefix():
        return Request("instance_backups.create", {"instance_id": instance.id})
    return Request("backups.retry", {"backup_id": task.arguments["backup_id"]})


def repeat_restore(task: Task, instance: Instance) -> Request:
    view = "backup_restores.new" if get_endpoint_prefix() else "backups.choose_restore"
    return Request(view, {"backup_id": task.arguments["backup_id"]}, is_page=True)


POWER_KINDS = [f"instance_{action.name}" for action in POWER_ACTIONS]
INSTANCE_RETRIES: dict[str, Callable[[Task, Instance], Request | None]] = {
    **dict.fromkeys(POWER_KINDS, repeat_power_action),
    **dict.fromkeys(("snapshot_create", "snapshot_delete", "snapshot_rollback"), repeat_snapshot),
    **dict.fromkeys(("disk_attach", "disk_detach", "disk_delete"), repeat_disk_action),
    **dict.fromkeys(("iso_mount", "iso_unmount"), repeat_drive_change),
    **dict.fromkeys(("docker_install", "docker_deploy", "docker_control", "docker_probe"), repeat_docker_action),
    "backup_create": repeat_backup,
    "backup_restore": repeat_restore,
    "instance_rescue_enable": build_instance_request("rescue_it", switch="on"),
    "instance_rescue_disable": build_instance_request("rescue_it", switch="off"),
    "instance_reset_password": build_instance_request("reset_password"),
    "instance_deploy": build_instance_request("show_deploy_form", is_page=True),
    "instance_reinstall": build_instance_request("show_reinstall_form", is_page=True),
    "instance_change_plan": build_instance_request("choose_plan", is_page=True),
    "instance_self_deploy": build_instance_request("tab", is_page=True, tab="media"),
    "image_capture": build_instance_request("tab", is_page=True, tab="media"),
    "instance_ssh_key_inject": build_instance_request("tab", is_page=True, tab="settings"),
    "instance_configure": build_instance_request("tab", is_page=True, tab="settings"),
    "instance_destroy": build_instance_request("tab", is_page=True, tab="settings"),
    "disk_add": build_instance_request("tab", is_page=True, tab="storage"),
    "disk_resize": build_instance_request("tab", is_page=True, tab="storage"),
    "firewall_apply": build_instance_request("tab", is_page=True, tab="network"),
    "forge_enable": build_instance_request("tab", is_page=True, tab="snapshots"),
    "forge_commit": build_instance_request("forge", action="commit"),
    "forge_discard": build_instance_request("forge", action="discard"),
    "docker_remove": build_instance_request("tab", is_page=True, tab="apps"),
}
"""How a task of an instance is tried again, by its kind."""


def describe_snapshot_loss(action: str, name: str) -> str:
    if action == "delete":
        return _("Delete snapshot %(name)s?", name=name)
    return _("Roll back to snapshot %(name)s? Everything that was written since then is lost.", name=name)


def repeat_volume_action(task: Task) -> Request | None:
    volume = session.get(Volume, task.resource_id)
    if volume is None or volume.status == "deleting":
        return None
    values = {"volume_id": volume.id}
    if task.kind == "volume_attach":
        return Request("volumes.attach", values, {"instance_id": task.arguments["instance_id"]}, is_form=True)
    if task.kind == "volume_detach":
        return Request("volumes.detach", values) if not get_endpoint_prefix() else None
    if task.kind in ("volume_snapshot_delete", "volume_restore"):
        snapshot = session.get(VolumeSnapshot, task.arguments.get("snapshot_id", ""))
        if snapshot is None or snapshot.volume_id != volume.id:
            return None
        action = "restore" if task.kind == "volume_restore" else "delete"
        values |= {"snapshot_id": snapshot.id, "action": action}
        return Request("volumes.use_snapshot", values, confirmation=describe_snapshot_loss(action, snapshot.name))
    return Request("volumes.show", values, is_page=True)


def repeat_microvm_action(task: Task) -> Request | None:
    microvm = session.get(Microvm, task.resource_id)
    if microvm is None or microvm.ended_at:
        return None
    values = {"microvm_id": microvm.id}
    if task.kind in ("microvm_rollback", "microvm_snapshot_delete"):
        snapshot = session.get(MicrovmSnapshot, task.arguments.get("snapshot_id", ""))
        if snapshot is None or snapshot.microvm_id != microvm.id:
            return None
        action = "rollback" if task.kind == "microvm_rollback" else "delete"
        values |= {"snapshot_id": snapshot.id, "action": action}
        return Request("microvms.use_snapshot", values, confirmation=describe_snapshot_loss(action, snapshot.name))
    if task.kind == "microvm_snapshot":
        return Request("microvms.show", values, is_page=True)
    return Request("microvms.act", values | {"action": task.kind.removeprefix("microvm_")})


def build_resource_request(view: str, argument: str, *, is_page: bool = False) -> Callable[[Task], Request]:
    """Return a builder of a request about the task's resource."""
    return lambda task: Request(view, {argument: task.resource_id}, is_page=is_page)


RESOURCE_RETRIES: dict[tuple[str, str], Callable[[Task], Request | None]] = {
    **{
        ("volume", f"volume_{action}"): repeat_volume_action
        for action in ("attach", "detach", "snapshot_delete", "restore", "snapshot", "resize", "backup")
    },
    **{
        ("microvm", f"microvm_{action}"): repeat_microvm_action
        for action in ("start", "stop", "restart", "pause", "resume", "snapshot", "rollback", "snapshot_delete")
    },
    ("iso", "media_download"): build_resource_request("isos.retry", "iso_id"),
    ("image", "media_download"): build_resource_request("images.retry", "image_id"),
    ("microvm_image", "microvm_image_build"): build_resource_request("microvm_images.build", "image_id"),
    ("certificate", "certificate_order"): build_resource_request("certificates.renew", "certificate_id"),
    ("backup_copy", "backup_copy"): build_resource_request("backup_copies.retry", "copy_id"),
    ("backup_copy", "backup_copy_delete"): build_resource_request("backup_copies.retry", "copy_id"),
    ("hypervisor", "hypervisor_discover"): build_resource_request("orphans.discover", "hypervisor_id"),
    ("instance", "instance_repair"): build_resource_request("orphans.repair", "instance_id"),
    ("instance", "migration_live"): build_resource_request("migrations.choose", "instance_id", is_page=True),
    ("instance", "migration_cold"): build_resource_request("migrations.choose", "instance_id", is_page=True),
    ("installation_backup", "installation_backup_create"): lambda task: Request("installation_backups.back_up", {}),
}
"""How a task of another resource is tried again, by type of resource and kind."""


def build_retry(task: Task | None) -> Retry | None:
    """Return how the viewer tries the failed task again, or None when this area has no such action."""
    if task is None or task.status != "failed":
        return None
    builder = RESOURCE_RETRIES.get((task.resource_type, task.kind))
    instance = session.get(Instance, task.resource_id) if task.resource_type == "instance" else None
    if builder:
        request = builder(task) if task.resource_type != "instance" or instance else None
    else:
        request = INSTANCE_RETRIES[task.kind](task, instance) if instance and task.kind in INSTANCE_RETRIES else None
    if request is None:
        return None
    endpoint = f"{get_endpoint_prefix()}{request.endpoint}"
    view = current_app.view_functions.get(endpoint)
    if view is None:
        return None
    error = browser_session.permission_error(getattr(view, "permission"))  # noqa: B009  (guards set it)
    return Retry(url_for(endpoint, **request.values), error, request)


def find_next_attempt(task: Task) -> datetime | None:
    """Return when the panel tries again what the failed task did, or None when it does not."""
    if task.status != "failed":
        return None
    queries = {
        "iso": select(MediaDownload.next_attempt_at).where(MediaDownload.iso_id == task.resource_id),
        "image": select(MediaDownload.next_attempt_at).where(MediaDownload.image_id == task.resource_id),
        "certificate": select(Certificate.next_attempt_at).where(Certificate.id == task.resource_id),
        "volume": select(Volume.next_delete_at).where(Volume.id == task.resource_id),
        "microvm": select(Microvm.next_destroy_at).where(Microvm.id == task.resource_id),
    }
    query = queries.get(task.resource_type)
    return None if query is None else min(filter(None, session.scalars(query)), default=None)

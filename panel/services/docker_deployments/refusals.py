"""When actions on apps in a guest are refused, and the reasons.

Reasons that concern the machine are answered like those of other work in guests; reasons that concern Docker are a 422
(API reference: docker).
"""

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Conflict, Invalid, Problem, Unavailable
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Instance, Rescue, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import state_machine
from panel.services.docker_deployments import read
from panel.services.instances.guest import guest_access_error

task_kind("docker_install", "Docker installation")
task_kind("docker_deploy", "App deploy")
task_kind("docker_control", "Command to an app")
task_kind("docker_remove", "App removal")
task_kind("docker_probe", "Look at an app")

EXCLUSIVE_TASK_KINDS = ("docker_install", "docker_deploy", "docker_control")
"""Only one of these runs on an instance at a time."""

DOCKER_TASK_KINDS = (*EXCLUSIVE_TASK_KINDS, "docker_remove", "docker_probe")

MAX_APPS_PER_INSTANCE = 32
"""Apps of one instance. Each is polled every few minutes."""

DOCKER_TASK_RUNNING, DOCKER_NOT_INSTALLED, ALREADY_INSTALLED = (
    "docker_task_running",
    "docker_not_installed",
    "already_installed",
)
UNSUPPORTED_SYSTEM_MESSAGE = message(
    "The system of this instance has no package manager that the panel can install Docker with (apt, dnf, apk, zypper, "
    "pacman). Install Docker and Compose by hand, or deploy another image."
)
DOCKER_REASONS = {
    **state_machine.REASON_MESSAGES,
    DOCKER_TASK_RUNNING: message(
        "Another Docker task is in progress in this instance. Try again when it has finished."
    ),
    DOCKER_NOT_INSTALLED: message("Docker is not installed in this instance. Install it first."),
    ALREADY_INSTALLED: message("Docker is already installed."),
    "unsupported_system": UNSUPPORTED_SYSTEM_MESSAGE,
    "docker_limit": message("An instance has at most {maximum} apps. Remove one first.", maximum=MAX_APPS_PER_INSTANCE),
}
REASON_EXCEPTIONS: dict[str, type[Problem]] = dict.fromkeys(
    ("not_running", DOCKER_TASK_RUNNING, DOCKER_NOT_INSTALLED, ALREADY_INSTALLED, "docker_limit", "unsupported_system"),
    Invalid,
)
REASON_EXCEPTIONS["hypervisor_unreachable"] = Unavailable


def guest_error(instance: Instance, *, by_operator: bool = False) -> str | None:
    """Return the reason why no work in the guest is possible now, or None."""
    reason = guest_access_error(instance, "docker", by_operator=by_operator)
    return reason or ("rescue_active" if session.get(Rescue, instance.id) else None)


def install_error(instance: Instance, *, by_operator: bool = False) -> str | None:
    return guest_error(instance, by_operator=by_operator) or (
        ALREADY_INSTALLED if read.is_engine_installed(instance) else task_running_error(instance)
    )


def engine_error(instance: Instance, *, by_operator: bool = False) -> str | None:
    """Return the reason why no work that needs the engine is possible now, or None."""
    reason = guest_error(instance, by_operator=by_operator) or (
        None if read.is_engine_installed(instance) else DOCKER_NOT_INSTALLED
    )
    return reason or task_running_error(instance)


def deploy_error(instance: Instance, *, by_operator: bool = False) -> str | None:
    reason = engine_error(instance, by_operator=by_operator)
    return reason or ("docker_limit" if len(read.listing(instance)) >= MAX_APPS_PER_INSTANCE else None)


def task_running_error(instance: Instance) -> str | None:
    query = select(Task.id).where(
        Task.resource_id == instance.id, Task.kind.in_(EXCLUSIVE_TASK_KINDS), Task.status.in_(OPEN_STATUSES)
    )
    return DOCKER_TASK_RUNNING if session.scalar(query.limit(1)) else None


def ensure_not_refused(reason: str | None) -> None:
    """Raise for a reason; do nothing for None."""
    if reason:
        raise REASON_EXCEPTIONS.get(reason, Conflict)(DOCKER_REASONS[reason], reason=reason)


def lock_instance(instance: Instance) -> None:
    """Lock the instance until the transaction ends, so that concurrent requests for Docker work are checked one after
    the other."""
    session.execute(select(Instance.id).where(Instance.id == instance.id).with_for_update(key_share=True))

"""When something can be done with the apps in a guest, and what the refusal says.

What is refused for the machine's sake is refused as other work inside guests is; what is refused for Docker's sake is a
422 (API reference: docker).
"""

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Conflict, Invalid, Unavailable
from panel.models import Instance, Rescue, Task
from panel.models.tasks import OPEN
from panel.services import state_machine
from panel.services.docker_deployments import read
from panel.services.instances.blockers import RESCUE
from panel.services.instances.guest import unreachable

ALONE = ("docker_install", "docker_deploy", "docker_control")
"""One of these at a time works on an instance."""

KINDS = (*ALONE, "docker_remove", "docker_probe")

MOST = 32
"""Apps of one instance: each is looked at every few minutes."""

BUSY, ABSENT, THERE = "docker_task_running", "docker_not_installed", "already_installed"
UNSUPPORTED = (
    "The system of this instance has no package manager that the panel can install Docker with (apt, dnf, apk, zypper, "
    "pacman). Install Docker and Compose by hand, or deploy another image."
)
WORDS = {
    **state_machine.WORDS,
    "rescue_active": RESCUE,
    BUSY: "Other work on Docker is under way in this instance. Wait until it has ended.",
    ABSENT: "Docker is not installed in this instance. Install it first.",
    THERE: "Docker is installed already.",
    "unsupported_system": UNSUPPORTED,
    "docker_limit": f"An instance has at most {MOST} apps. Remove one first.",
}
STATUS = dict.fromkeys(("not_running", BUSY, ABSENT, THERE, "docker_limit", "unsupported_system"), Invalid)
STATUS["hypervisor_unreachable"] = Unavailable


def refusal(instance, *, by_operator=False):
    """The reason word why nothing can be done inside the guest now, or None."""
    reason = unreachable(instance, "docker", by_operator=by_operator)
    return reason or ("rescue_active" if session.get(Rescue, instance.id) else None)


def why_no_install(instance, *, by_operator=False):
    return refusal(instance, by_operator=by_operator) or (THERE if read.enabled(instance) else busy(instance))


def why_not(instance, *, by_operator=False):
    """The same for what needs the engine."""
    reason = refusal(instance, by_operator=by_operator) or (None if read.enabled(instance) else ABSENT)
    return reason or busy(instance)


def why_no_deploy(instance, *, by_operator=False):
    reason = why_not(instance, by_operator=by_operator)
    return reason or ("docker_limit" if len(read.listing(instance)) >= MOST else None)


def busy(instance):
    going_on = select(Task.id).where(Task.resource_id == instance.id, Task.kind.in_(ALONE), Task.status.in_(OPEN))
    return BUSY if session.scalar(going_on.limit(1)) else None


def need(reason):
    """Raises the refusal, if there is one."""
    if reason:
        raise STATUS.get(reason, Conflict)(WORDS[reason], reason=reason)


def alone(instance):
    """Keeps others from asking for work on Docker in the instance until the end of the transaction: of two at the same
    moment the second one is refused for the first."""
    session.execute(select(Instance.id).where(Instance.id == instance.id).with_for_update(key_share=True))

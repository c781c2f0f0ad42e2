"""The state of an instance in words for people: those of the API, and what a task does with it at the moment."""

from panel.models import Instance
from panel.models.tasks import TRANSITION_TASK_KINDS
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

TRANSITION_LABELS = {
    "instance_deploy": lazy_gettext("Deploying"),
    "instance_reinstall": lazy_gettext("Reinstalling"),
    "instance_self_deploy": lazy_gettext("Installing"),
    "instance_destroy": lazy_gettext("Destroying"),
    "instance_start": lazy_gettext("Starting"),
    "instance_stop": lazy_gettext("Stopping"),
    "instance_shutdown": lazy_gettext("Shutting down"),
    "instance_poweroff": lazy_gettext("Powering off"),
    "instance_restart": lazy_gettext("Restarting"),
    "instance_suspend": lazy_gettext("Suspending"),
    "instance_unsuspend": lazy_gettext("Resuming"),
    "snapshot_rollback": lazy_gettext("Rolling back"),
    "backup_restore": lazy_gettext("Restoring"),
    "backup_restore_new": lazy_gettext("Restoring"),
    "backup_restore_revert": lazy_gettext("Restoring"),
}
"""By kind of task, see `Instance.transition`."""


def describe_state(instance: Instance) -> tuple[str, str | None]:
    """Return the word that gives the state its colour, and its label if that is another one."""
    if instance.missing_on_node:
        return "lost", None
    if instance.state == "migrating":
        return "migrating", None
    if instance.transition:
        return "working", str(TRANSITION_LABELS[instance.transition])
    if instance.state == "pending":
        return "failed" if instance.last_error else "unknown", _("Not deployed")
    return instance.state, None


assert TRANSITION_LABELS.keys() == set(TRANSITION_TASK_KINDS)

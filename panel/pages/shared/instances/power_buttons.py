"""The power buttons of an instance, each with the reason why it is disabled."""

from dataclasses import dataclass

from panel.pages.shared.area import permission_error as not_permitted
from panel.services import instances


@dataclass(frozen=True)
class Control:
    action: str
    label: str
    symbol: str
    noop_state: str
    """The state in which the action would have no effect."""
    question: str | None = None
    is_dangerous: bool = False

    @property
    def requested_message(self):
        """The message after the request. The task is queued, not done."""
        return f"{self.label} requested."


POWER_CONTROLS = (
    Control("start", "Start", "player-play", "running"),
    Control("restart", "Restart", "rotate-clockwise", "", "Restart {}? Its guest is asked to reboot."),
    Control(
        "shutdown",
        "Shut down",
        "power",
        "stopped",
        "Shut down {}? Its guest is asked to end by itself.",
    ),
    Control(
        "poweroff",
        "Power off",
        "plug",
        "stopped",
        "Power {} off at once? It is like pulling the plug: what the guest has not saved is lost.",
        is_dangerous=True,
    ),
)


def iter_controls(instance):
    """Yield (control, reason why it is disabled or None, confirmation question or None)."""
    for control in POWER_CONTROLS:
        question = control.question and control.question.format(instance.display_name)
        yield control, control_error(instance, control), question


def control_error(instance, control):
    if not_permitted("instances.power"):
        return not_permitted("instances.power")
    reason = instances.action_error(instance, control.action)
    if reason:
        return instances.REASONS[reason]
    useless = control.noop_state and instance.state == control.noop_state and not instance.frozen
    return f"It is {control.noop_state} already." if useless else None

"""The power buttons of an instance, each with the reason why it cannot be pressed now."""

from dataclasses import dataclass

from panel.pages.shared.area import refusal as not_permitted
from panel.services import instances


@dataclass(frozen=True)
class Control:
    action: str
    label: str
    symbol: str
    useless: str
    """The state in which it would change nothing."""
    question: str | None = None
    danger: bool = False

    @property
    def requested(self):
        """What the person is told: the task is queued, nothing has happened yet."""
        return f"{self.label} requested."


CONTROLS = (
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
        danger=True,
    ),
)


def controls(instance):
    """Each control with its reason, or None, and with what is asked first."""
    for control in CONTROLS:
        question = control.question and control.question.format(instance.display_name)
        yield control, why_not(instance, control), question


def why_not(instance, control):
    if not_permitted("instances.power"):
        return not_permitted("instances.power")
    reason = instances.refusal(instance, control.action)
    if reason:
        return instances.WORDS[reason]
    useless = control.useless and instance.state == control.useless and not instance.frozen
    return f"It is {control.useless} already." if useless else None

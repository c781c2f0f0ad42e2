"""The actions on an instance: label, icon, confirmation and messages, for the API, pages and bulk alike.

Whether an action is allowed is decided in `state_machine`; `disabled_reason` adds that it would change nothing.
"""

from dataclasses import dataclass

from panel.core.messages import message
from panel.models import Instance, Task
from panel.services.state_machine import REASON_MESSAGES, action_error


@dataclass(frozen=True)
class Action:
    name: str
    """The action's name on the wire."""
    label: str
    icon: str
    permission: str
    """What a customer needs for it; empty for operators' actions."""
    done_message: str
    """The message after the request. What a task does is queued then, not done."""
    noop_message: str = ""
    """The message when nothing had to be done."""
    noop_power: str | None = None
    """The power with which nothing has to be done."""
    confirmation: str | None = None
    """The confirmation, with places for the instance's `name` and its `owner`'s address."""
    bulk_confirmation: str | None = None
    """The confirmation for the selected instances of a list."""
    is_dangerous: bool = False
    takes_tag: bool = False
    """Whether it needs a tag, which it changes at once, without a task."""

    def get_confirmation(self, instance: Instance) -> str | None:
        """Return the confirmation for this instance, or None when the action needs none."""
        if not self.confirmation:
            return None
        owner = {"owner": instance.account.email} if "{owner}" in self.confirmation else {}
        return self.confirmation.format(name=instance.display_name, **owner)

    def is_noop(self, instance: Instance) -> bool:
        """Return whether the power is already as the action would make it. A frozen guest can be started again."""
        return self.noop_power is not None and instance.power == self.noop_power and not instance.paused

    def result_message(self, is_changed: Task | bool | None) -> str:
        return self.done_message if is_changed else self.noop_message


ALREADY_RUNNING_MESSAGE = message("Already running.")
ALREADY_STOPPED_MESSAGE = message("Already stopped.")

ACTIONS = {
    action.name: action
    for action in (
        Action(
            "start",
            message("Start"),
            "player-play",
            "instances.power",
            message("Start requested."),
            ALREADY_RUNNING_MESSAGE,
            "on",
        ),
        Action(
            "stop",
            message("Stop"),
            "player-stop",
            "instances.power",
            message("Stop requested."),
            ALREADY_STOPPED_MESSAGE,
            "off",
            message("Stop {name}? It is asked to shut down, and powered off if it has not done so after two minutes."),
            message(
                "Stop the selected instances? They are asked to shut down, and powered off if they have not done so"
                " after two minutes."
            ),
        ),
        Action(
            "shutdown",
            message("Shut down"),
            "power",
            "instances.power",
            message("Shut down requested."),
            ALREADY_STOPPED_MESSAGE,
            "off",
            message("Shut down {name}? Its guest is asked to shut down."),
            message("Shut down the selected instances? Their guests are asked to shut down."),
        ),
        Action(
            "restart",
            message("Restart"),
            "rotate-clockwise",
            "instances.power",
            message("Restart requested."),
            confirmation=message("Restart {name}? Its guest is asked to reboot."),
            bulk_confirmation=message("Restart the selected instances? Their guests are asked to reboot."),
        ),
        Action(
            "poweroff",
            message("Power off"),
            "plug",
            "instances.power",
            message("Power off requested."),
            ALREADY_STOPPED_MESSAGE,
            "off",
            message("Power off {name} at once? What its guest has not saved is lost."),
            message("Power off the selected instances at once? What their guests have not saved is lost."),
            is_dangerous=True,
        ),
        Action(
            "destroy", message("Destroy"), "trash", "instances.delete", message("Destroy requested."), is_dangerous=True
        ),
        Action(
            "add_tag",
            message("Add tag"),
            "tag",
            "instances.manage",
            message("Tag added."),
            message("It already has this tag."),
            takes_tag=True,
        ),
        Action(
            "remove_tag",
            message("Remove tag"),
            "tag",
            "instances.manage",
            message("Tag removed."),
            message("It does not have this tag."),
            takes_tag=True,
        ),
        Action(
            "suspend",
            message("Suspend"),
            "player-pause",
            "",
            message("Suspended. Power off requested."),
            message("Already suspended."),
            confirmation=message(
                "Suspend {name}? It is turned off, and {owner} cannot start it until you lift the suspension."
            ),
            bulk_confirmation=message(
                "Suspend the selected instances? They are turned off, and their owners cannot start them until you"
                " lift the suspension."
            ),
            is_dangerous=True,
        ),
        Action(
            "unsuspend",
            message("Lift suspension"),
            "player-play",
            "",
            message("No longer suspended."),
            message("Not suspended."),
        ),
    )
}


def get_actions(*names: str) -> tuple[Action, ...]:
    return tuple(ACTIONS[name] for name in names)


CUSTOMER_BULK_ACTIONS = tuple(action.name for action in ACTIONS.values() if action.permission)
OPERATOR_BULK_ACTIONS = tuple(ACTIONS)
POWER_ACTIONS = get_actions("start", "stop", "shutdown", "restart", "poweroff")
POWER_BUTTONS = get_actions("start", "restart", "shutdown", "poweroff")
"""The buttons of customers and operators. `stop` is for the API: it powers off what does not shut down in time."""
CUSTOMER_BULK_BUTTONS = (*POWER_BUTTONS, ACTIONS["destroy"])
OPERATOR_BULK_BUTTONS = (*POWER_BUTTONS, *get_actions("suspend", "unsuspend", "destroy"))


def find_power_action(name: str) -> Action | None:
    return next((action for action in POWER_ACTIONS if action.name == name), None)


def disabled_reason(instance: Instance, action: Action, *, by_operator: bool = False) -> str | None:
    """Return why the action is not offered now, as a sentence, or None."""
    reason = action_error(instance, action.name, by_operator=by_operator)
    return REASON_MESSAGES[reason] if reason else action.noop_message if action.is_noop(instance) else None

"""What the viewer can do with an instance from a list or from search: console, shell and power."""

from dataclasses import dataclass

from flask import url_for

from panel.core.db import session
from panel.models import Instance
from panel.pages.shared.area import (
    get_endpoint_prefix,
    get_instance,
    is_operator_area,
    permission_error,
    route,
    scope_account,
)
from panel.pages.shared.console_views import list_console_errors
from panel.pages.shared.instances.power_buttons import iter_power_buttons, power_url
from panel.services import instances
from panel.web.htmx import render
from panel.web.translation import gettext as _
from panel.web.translation import translate

SEARCH_POWER_ACTIONS = ("start", "shutdown", "restart")


@dataclass(frozen=True)
class RowAction:
    label: str
    icon: str
    url: str
    disabled_reason: str | None = None
    confirmation: str | None = None
    is_dangerous: bool = False
    is_form: bool = True
    is_new_tab: bool = False


def iter_console_actions(instance):
    """Yield console and shell, each with the reason why it cannot be opened now."""
    prefix = get_endpoint_prefix()
    errors = list_console_errors(instance, permission_error("instances.console"), is_operator_area())
    screen, shell = (url_for(f"{prefix}consoles.{view}", instance_id=instance.id) for view in ("new_screen", "shell"))
    yield RowAction(_("Console"), "device-desktop", screen, errors["screen"], is_new_tab=True)
    yield RowAction(_("Shell"), "terminal-2", shell, errors["shell"], is_form=False, is_new_tab=True)


def iter_power_actions(instance, names=None):
    """Yield the actions of the area, or those of them that `names` has."""
    for action, reason, confirmation in iter_power_buttons(instance):
        if names and action.name not in names:
            continue
        yield RowAction(
            translate(action.label),
            action.icon,
            power_url(instance, action),
            reason,
            translate(confirmation) if confirmation else None,
            action.is_dangerous,
        )


def list_search_actions(instance):
    """Return what a search result offers: only what is allowed and possible now."""
    actions = (*iter_console_actions(instance), *iter_power_actions(instance, SEARCH_POWER_ACTIONS))
    return [action for action in actions if not action.disabled_reason]


def list_row_actions(instance):
    """Return what the menu of a row offers, each with the reason why it is not possible now."""
    return [*iter_console_actions(instance), *iter_power_actions(instance)]


@route("GET", "/<instance_id>/row-actions", can="instances.view")
def row_actions(instance_id):
    """Render the actions of a row's menu, which loads them when it opens: they take longer to render than all else of
    the row."""
    return render("shared/instance_row_actions.html", actions=list_row_actions(get_instance(instance_id)))


def find_search_actions(ids):
    """Return {id: actions} of the instances with these ids that the viewer may see. One query."""
    rows = session.scalars(instances.select_list_rows(scope_account()).where(Instance.id.in_(ids)))
    return {row.id: list_search_actions(row) for row in rows}

"""The audit log on the pages: parsing of the filters, and labels of entries."""

from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from flask import current_app, request

from panel.core.formatting import format_duration
from panel.web.audit_labels import OBJECT_TYPE_LABELS, OPERATION_LABELS
from panel.web.translation import gettext, lazy_gettext

COMMAND_LABELS = {
    "panel.token.admin": lazy_gettext("Create admin token"),
    "panel.token.billing": lazy_gettext("Create billing token"),
    "panel.token.user": lazy_gettext("Create token"),
    "panel.user.password": lazy_gettext("Set password"),
}
"""Labels of actions of the command line."""
CONSOLE_LABELS = {
    ("screen", "opened"): lazy_gettext("Console opened"),
    ("screen", "closed"): lazy_gettext("Console closed"),
    ("shell", "opened"): lazy_gettext("Shell opened"),
    ("shell", "closed"): lazy_gettext("Shell closed"),
}
"""Labels of console events."""


def audit_label(label):
    """Decorate a page's or an operation's view whose name is not clear enough in the audit log."""

    def register(view):
        view.audit_label = label
        return view

    return register


def find_label(action):
    """Return the declared label of an action, which is an endpoint, an operation of an API or a command, or None."""
    surface, _, operation = action.partition(".")
    resource, _, name = operation.partition(".")
    endpoint = f"{surface}_{resource}.{name.replace('.', '_')}" if name else action
    view = current_app.view_functions.get(endpoint)
    label = getattr(view, "audit_label", None)
    return COMMAND_LABELS.get(action) or (label and gettext(label))


def describe_entry(entry):
    """Return the label of an entry's action, such as `Power off`, `Create`, `Sign in`."""
    if entry.action.startswith("console."):
        return describe_console_entry(entry.changes)
    task = entry.changes.get("task", "").removeprefix(f"{entry.object_type}_")
    operation = task or entry.action.rpartition(".")[2]
    return find_label(entry.action) or str(OPERATION_LABELS.get(operation) or capitalize_operation(operation))


def describe_console_entry(changes):
    """Return the label of a console event, such as `Console closed after 5 min`."""
    label = str(CONSOLE_LABELS[changes["kind"], changes["did"]])
    if "seconds" not in changes:
        return label
    return gettext("%(label)s after %(duration)s", label=label, duration=format_duration(changes["seconds"]))


def object_type_label(entry):
    """Return the label of an entry's object type, such as `SSH key` or `Instance`."""
    object_type = entry.object_type or ""
    if object_type == "backup_policy" and "backup_job" in entry.action:  # jobs are rows of the policies' table
        return gettext("Backup job")
    return str(OBJECT_TYPE_LABELS.get(object_type) or capitalize_operation(object_type))


def capitalize_operation(name):
    """Return the name of an operation that no longer exists, as in old entries."""
    return name.replace("_", " ").capitalize()


def parse_filters(zone, *names):
    """Return the request's filters for `audit.listing`. Days begin at midnight in `zone`; invalid dates are ignored."""
    filters = {name: request.args.get(name, "").strip()[:255] for name in ("search", "action", "person", *names)}
    since, until = parse_day("since", zone), parse_day("until", zone)
    return {**filters, "since": since, "until": until and until + timedelta(days=1, microseconds=-1)}


def parse_day(name, zone):
    try:
        day = date.fromisoformat(request.args.get(name, ""))
        return datetime.combine(day, time(), ZoneInfo(zone)) if 1970 < day.year < 3000 else None
    except ValueError:
        return None

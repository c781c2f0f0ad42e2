"""The audit log on the pages: parsing of the filters, and labels of entries."""

from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from flask import request

from panel.web.formatting import duration

ACTION_LABELS = {
    **dict.fromkeys(("consoles.new_screen", "consoles.again", "admin_consoles.new_screen"), "Ask for a screen"),
    **dict.fromkeys(("consoles.open_shell", "admin_consoles.open_shell"), "Ask for a shell"),
    **dict.fromkeys(("consoles.trust", "admin_consoles.trust"), "Accept a host key"),
    **dict.fromkeys(("user.instance.push_ssh_keys", "instances.push_keys"), "Push SSH keys"),
    **dict.fromkeys(("admin.impersonation.start", "admin_impersonations.start"), "Begin to act as the person"),
    **dict.fromkeys(("user.token.stop", "impersonation.stop"), "Stop acting as the person"),
    "panel.token.admin": "Make an admin token",
    "panel.token.billing": "Make a billing token",
    "panel.token.user": "Make a token",
    "panel.user.password": "Set a password",
    "password_reset.start": "Ask for a link to a new password",
    "password_reset.finish": "Choose a new password",
    "security.end": "End a session",
    "security.end_others": "End all other sessions",
    "sign_in.start": "Sign in",
    "sign_in.finish": "Sign in, second step",
    "sign_in.by_passkey": "Sign in with a passkey",
    "sign_in.finish_by_passkey": "Sign in, second step with a passkey",
    "sign_in.leave": "Sign out",
    "sso.arrive": "Sign in from the billing system",
}
"""Labels of actions whose name is not clear enough."""


def describe_entry(entry):
    """Return the label of an entry's action, such as `Power off`, `Create`, `Sign in`."""
    if entry.action.startswith("console."):
        return describe_console_entry(entry.changes)
    task = entry.changes.get("task", "").removeprefix(f"{entry.object_type}_")
    label = (task or entry.action.rpartition(".")[2]).replace("_", " ").replace("poweroff", "power off")
    return ACTION_LABELS.get(entry.action) or label.capitalize().replace("Ssh", "SSH")


def describe_console_entry(changes):
    """Return the label of a console event, such as `A screen closed after 5 min`."""
    duration_text = f" after {duration(changes['seconds'])}" if "seconds" in changes else ""
    return f"A {changes['kind']} {changes['did']}{duration_text}"


def object_type_label(entry):
    """Return the label of an entry's object type, such as `SSH key` or `Instance`."""
    return (entry.object_type or "").replace("_", " ").capitalize().replace("Ssh", "SSH")


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

"""One action on many instances: each by itself, with a line that says what became of it (decision OP-12)."""

from collections import Counter

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import NotFound, Problem
from panel.models import Instance
from panel.services.instances.actions import destroy, run_power_action
from panel.services.instances.suspension import suspend, unsuspend
from panel.services.instances.tags import add_tag, remove_tag
from panel.services.state_machine import ensure_not_suspended

REQUIRED_PERMISSION = {
    **dict.fromkeys(("start", "stop", "shutdown", "restart", "poweroff"), "instances.power"),
    "destroy": "instances.delete",
    "add_tag": "instances.manage",
    "remove_tag": "instances.manage",
}
"""What customers may ask for, and the permission that each action needs."""

OPERATOR_ACTIONS = (*REQUIRED_PERMISSION, "suspend", "unsuspend")

DONE_MESSAGES = {
    "start": "Start requested.",
    "stop": "Stop requested.",
    "shutdown": "Shut down requested.",
    "restart": "Restart requested.",
    "poweroff": "Power off requested.",
    "destroy": "Destroy requested.",
    "suspend": "Suspended. Power off requested.",
    "unsuspend": "No longer suspended.",
    "add_tag": "Tag added.",
    "remove_tag": "Tag removed.",
}
NOOP_MESSAGE = "It is so already."


def run_bulk(ids, action, *, actor, access=None, tag=None):
    """Does the action to each of these instances and returns the lines, in the order of the ids, each of which counts
    once. With an access foreign ids are dropped; an operator's unknown ids are lines that say so. What is refused
    leaves nothing and holds up no other."""
    wanted = list(dict.fromkeys(ids))
    query = select(Instance).where(Instance.id.in_(wanted))
    found = {row.id: row for row in session.scalars(query.where(access.visible_rows(Instance)) if access else query)}
    if access:
        wanted = [id_ for id_ in wanted if id_ in found]
    return [result_row(id_, found.get(id_), action, actor=actor, by_operator=access is None, tag=tag) for id_ in wanted]


def select_instances(ids, access=None):
    """Those of the instances that are there, to be shown before they are destroyed."""
    query = select(Instance).where(Instance.id.in_(ids)).order_by(Instance.display_name)
    return session.scalars(query.where(access.visible_rows(Instance)) if access else query).all()


def result_row(id_, instance, action, **how):
    told = {"id": id_, "name": instance.display_name if instance else None}
    try:
        if instance is None:
            raise NotFound("No such instance.", reason="instance_not_found")
        with session.begin_nested():
            done = run_one(instance, action, **how)
        return {**told, "status": 200, "success": True, "message": DONE_MESSAGES[action] if done else NOOP_MESSAGE}
    except Problem as error:
        refused = {"status": error.status, "success": False, "message": error.message}
        return {**told, **refused, **({"reason": error.reason} if error.reason else {})}


def run_one(instance, action, *, actor, by_operator, tag):
    if not by_operator and action != "destroy":
        ensure_not_suspended(instance)
    match action:
        case "destroy":
            return destroy(instance, actor=actor, by_operator=by_operator)
        case "suspend":
            return suspend(instance, reason="admin", actor=actor)
        case "unsuspend":
            return unsuspend(instance, actor=actor)
        case "add_tag":
            return add_tag(instance, tag)
        case "remove_tag":
            return remove_tag(instance, tag)
    return run_power_action(instance, action, actor=actor, by_operator=by_operator)


def result_status(lines):
    """200 when nothing was refused; else the first refusal's, unless a later one is a 503 (specification 4.9)."""
    refused = [line["status"] for line in lines if not line["success"]]
    return 503 if 503 in refused else refused[0] if refused else 200


def count_results(lines):
    """How many were `queued` and how many `refused`."""
    found = Counter("queued" if line["success"] else "refused" for line in lines)
    return {"queued": found["queued"], "refused": found["refused"]}

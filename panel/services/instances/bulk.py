"""One action on many instances: each is independent and has its own result row (decision OP-12)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import NotFound, Problem
from panel.core.messages import message
from panel.models import Instance, Task
from panel.services.access import Access
from panel.services.instances.action_catalog import ACTIONS
from panel.services.instances.actions import destroy, run_power_action
from panel.services.instances.suspension import suspend, unsuspend
from panel.services.instances.tags import add_tag, remove_tag
from panel.services.state_machine import ensure_not_suspended


def run_bulk(
    ids: Iterable[str], action: str, *, actor: str, access: Access | None = None, tag: str = ""
) -> list[dict[str, Any]]:
    """Run the action on each of these instances and return the result rows in the order of the ids, without duplicates.
    With an access, foreign ids are dropped; without (operators) an unknown id is a refused row. A refused instance is
    left unchanged and does not affect the others."""
    requested = list(dict.fromkeys(ids))
    query = select(Instance).where(Instance.id.in_(requested))
    instances = {
        row.id: row for row in session.scalars(query.where(access.visible_rows(Instance)) if access else query)
    }
    if access:
        requested = [id_ for id_ in requested if id_ in instances]
    return [
        build_result_row(id_, instances.get(id_), action, actor=actor, by_operator=access is None, tag=tag)
        for id_ in requested
    ]


def select_instances(ids: Iterable[str], access: Access | None = None) -> Sequence[Instance]:
    """Return the existing instances with these ids, for the confirmation of a bulk destroy."""
    query = select(Instance).where(Instance.id.in_(ids)).order_by(Instance.display_name)
    return session.scalars(query.where(access.visible_rows(Instance)) if access else query).all()


def build_result_row(id_: str, instance: Instance | None, action: str, **options: Any) -> dict[str, Any]:
    subject = {"id": id_, "name": instance.display_name if instance else None}
    try:
        if instance is None:
            raise NotFound(message("No such instance."), reason="instance_not_found")
        with session.begin_nested():
            is_changed = run_one(instance, action, **options)
        return {
            **subject,
            "status": 200,
            "success": True,
            "message": ACTIONS[action].result_message(is_changed),
        }
    except Problem as error:
        failure = {"status": error.status, "success": False, "message": error.message}
        return {**subject, **failure, **({"reason": error.reason} if error.reason else {})}


def run_one(instance: Instance, action: str, *, actor: str, by_operator: bool, tag: str) -> Task | bool | None:
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


def get_bulk_status(rows: Iterable[dict[str, Any]]) -> int:
    """Return 200 when nothing was refused; else the status of the first refusal, or 503 if there is one (OP-12)."""
    refused = [row["status"] for row in rows if not row["success"]]
    return 503 if 503 in refused else refused[0] if refused else 200


def count_bulk_results(rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return how many are `queued` and how many `refused`."""
    counts = Counter("queued" if row["success"] else "refused" for row in rows)
    return {"queued": counts["queued"], "refused": counts["refused"]}

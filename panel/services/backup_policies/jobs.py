"""Backup jobs: they back up all instances of a hypervisor group, by a plan or with a schedule of their own.

A plan is a policy of the platform. A job is a row of the same table, so that schedule, failures and retention are those
of policies.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import joinedload, selectinload

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import BackupPolicy, Hypervisor, HypervisorGroup, Instance
from panel.schemas.backup_policies import DEFAULTS, KEEP_RULES
from panel.services import backup_destinations
from panel.services.backup_policies.policies import IS_PLATFORM_POLICY, PLAN_FIELDS, create, refuse_field, update
from panel.services.backup_policies.schedule import parse_schedule, schedule_next_run

OWN_FIELDS = ("schedule", "keep", "storage", "backup_device", "max_incremental_chain")
"""Fields of a body that a job has from its plan, if it has one."""
SHOWN_ROWS = joinedload(BackupPolicy.plan), joinedload(BackupPolicy.hypervisor), joinedload(BackupPolicy.destination)


def select_plans() -> Select[BackupPolicy]:
    """Select the platform's policies by name."""
    query = select(BackupPolicy).where(IS_PLATFORM_POLICY)
    query = query.options(joinedload(BackupPolicy.destination), selectinload(BackupPolicy.jobs))
    return query.order_by(BackupPolicy.name, BackupPolicy.id)


def get_plan(plan_id: str, error_field: str | None = None) -> BackupPolicy:
    plan = session.scalar(select_plans().where(BackupPolicy.id == plan_id))
    if plan is None:
        sentence = message("No such backup plan.")
        raise refuse_field(error_field, sentence) if error_field else NotFound(sentence)
    return plan


def create_plan(*, storage: str | None = None, **values: Any) -> BackupPolicy:
    """Create a policy of the platform, with a destination."""
    return create(None, **values, **resolve_storage({"storage": storage}))


def update_plan(plan: BackupPolicy, **changes: Any) -> BackupPolicy:
    """Change a plan, and the jobs that follow it."""
    columns = resolve_storage(changes)
    changes.pop("storage", None)
    return refresh_destination(update(plan, **changes, **columns))


def resolve_storage(body: dict[str, Any]) -> dict[str, Any]:
    """Return the column for `storage` of a body, if that is in it. Raise Invalid for an unknown destination."""
    if "storage" not in body:
        return {}
    destination_id = body["storage"]
    return {"destination_id": backup_destinations.get(destination_id, "storage").id if destination_id else None}


def select_jobs(group: HypervisorGroup) -> Select[BackupPolicy]:
    query = select(BackupPolicy).where(BackupPolicy.group_id == group.id).options(*SHOWN_ROWS)
    return query.order_by(BackupPolicy.name, BackupPolicy.id)


def get_job(group: HypervisorGroup, job_id: str) -> BackupPolicy:
    job = session.scalar(select_jobs(group).where(BackupPolicy.id == job_id))
    if job is None:
        raise NotFound(message("No such backup job."))
    return job


def map_jobs(instances: Iterable[Instance]) -> dict[str, list[BackupPolicy]]:
    """Return the enabled jobs that cover each of the instances, the one that runs first before the others, by id."""
    rows = list(instances)
    query = select(BackupPolicy).where(BackupPolicy.group_id.in_({row.group_id for row in rows}), BackupPolicy.enabled)
    jobs = session.scalars(query.order_by(BackupPolicy.next_run_at, BackupPolicy.id)).all() if rows else []
    return {row.id: [job for job in jobs if covers(job, row)] for row in rows}


def covers(job: BackupPolicy, instance: Instance) -> bool:
    return job.group_id == instance.group_id and job.hypervisor_id in (None, instance.hypervisor_id)


def create_job(group: HypervisorGroup, *, name: str | None = None, **body: Any) -> BackupPolicy:
    """Create a job of the group. It needs a plan, or what it retains in `keep`."""
    if not body.get("plan_id") and not body.get("keep"):
        raise refuse_field("keep", message("Say which backups are retained, or choose a plan."))
    values = DEFAULTS | {"retention_mode": "gfs", "timezone": "UTC"}
    job = BackupPolicy(group=group, name=name or group.display_name, **values)
    with session.no_autoflush:
        columns = build_columns(job, body)
        for column, value in columns.items():
            setattr(job, column, value)
        schedule_next_run(job, clock.now())
    session.add(job)
    session.flush()
    return job


def update_job(job: BackupPolicy, **changes: Any) -> BackupPolicy:
    """Change a job. Raise Invalid for a field that it has from its plan."""
    return refresh_destination(update(job, **build_columns(job, changes)))


def refresh_destination(policy: BackupPolicy) -> BackupPolicy:
    """Read the policy's destination again after its id was changed."""
    session.flush()
    session.expire(policy, ["destination"])
    return policy


def build_columns(job: BackupPolicy, body: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that the fields of a body change. A job that gets no plan any more keeps what it had of it."""
    columns: dict[str, Any] = {name: body[name] for name in ("name", "comment", "enabled") if name in body}
    if "plan_id" in body:
        plan = get_plan(body["plan_id"], "plan_id") if body["plan_id"] else None
        columns |= {"plan": plan} | ({field: getattr(plan, field) for field in PLAN_FIELDS} if plan else {})
    own = [name for name in OWN_FIELDS if name in body]
    if own and columns.get("plan", job.plan):
        raise refuse_field(own[0], message("The job has this from its plan. Change the plan, or send plan_id null."))
    columns |= resolve_storage(body) | {name: body[name] for name in OWN_FIELDS[3:] if name in body}
    if "schedule" in body:
        columns |= parse_schedule(body["schedule"])
    if "keep" in body:
        columns |= parse_keep(body["keep"])
    return columns | resolve_target(job, body)


def parse_keep(keep: dict[str, int | None]) -> dict[str, Any]:
    """Return the columns of retention. Rules that are not named are off."""
    rules = {name: keep.get(name) or 0 for name in KEEP_RULES}
    if not any(rules.values()):
        raise refuse_field("keep", message("At least one of the rules must be above 0."))
    return {"retention_mode": "gfs", "retention_count": None, **rules}


def resolve_target(job: BackupPolicy, body: dict[str, Any]) -> dict[str, Any]:
    """Return the column of the target, if the body has one. A hypervisor must belong to the group."""
    if not {"target_type", "target_value"} & body.keys():
        return {}
    target_type = body.get("target_type", "hypervisor" if job.hypervisor_id else "all")
    target_value = body.get("target_value", job.hypervisor_id if target_type == "hypervisor" else None)
    if target_type == "all":
        if target_value:
            raise refuse_field("target_value", message("Send it for the target type hypervisor only."))
        return {"hypervisor_id": None}
    hypervisor = session.get(Hypervisor, target_value) if target_value else None
    if hypervisor is None or hypervisor.group is not job.group:
        raise refuse_field("target_value", message("The group has no such hypervisor."))
    return {"hypervisor_id": hypervisor.id}

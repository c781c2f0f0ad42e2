"""Migrations of instances between hypervisors."""

from types import SimpleNamespace

from marshmallow import fields

from api import kit
from api.hypervisors import admin as hypervisor_routes
from api.instances import admin as instance_routes
from api.instances.admin_instances import get_or_422
from panel.schemas.base import describe
from panel.schemas.migrations import (
    Evacuation,
    MigrationIn,
    MigrationOut,
    MigrationQuery,
    MoveIn,
    Moving,
    PrecheckOut,
    PrecheckQuery,
)
from panel.schemas.tasks import TaskLogOut
from panel.schemas.unmanaged_machines import Asked
from panel.services import hypervisors, instances, migrations
from panel.workflows import reachability

admin = kit.Admin("migration", __name__, description="Migrations")
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"
OLD_MIGRATE_PATH = "/api/v1/instance/<instance_id>/proxmox-migrate"
LOG_RESPONSE = kit.Schema.from_dict(
    {"logs": fields.List(fields.Nested(TaskLogOut), **describe("Log lines, oldest first."))}, name="MigrationLogs"
)


@admin.get(
    "/migrations", op="list", can=READ_PERMISSION, query=MigrationQuery, out=kit.build_admin_page_schema(MigrationOut)
)
def listing(query):
    """List migrations, newest first.

    Filter with `status` and `instance_id`.
    """
    return kit.paginate(migrations.listing(**query))


@admin.post("/migrations", op="create", can=WRITE_PERMISSION, body=MigrationIn, out=Moving)
def create(body):
    """Migrate an instance to another hypervisor of its location.

    A running guest keeps running. If the migration fails, the instance stays on its hypervisor.
    """
    instance = get_or_422(instances.get, body["instance_id"], "instance_id")
    target = hypervisors.get(body["hypervisor_id"], "hypervisor_id") if body.get("hypervisor_id") else None
    reachability.check_node(instance.hypervisor)
    return describe_start(
        migrations.start(instance, target=target, live=body.get("online"), actor=kit.get_current_actor())
    )


@admin.get("/migration/<migration_id>", op="get", can=READ_PERMISSION, budget="polls", out=MigrationOut)
def show(migration_id):
    """Get a migration.

    Poll it until its status is `completed`, `failed` or `cancelled`. Counts against the rate limit for polls.
    """
    return migrations.get(migration_id)


@admin.get("/migration/<migration_id>/logs", op="logs", can=READ_PERMISSION, budget="polls", out=LOG_RESPONSE)
def logs(migration_id):
    """Get the log of a migration, oldest line first.

    Counts against the rate limit for polls.
    """
    migration = migrations.get(migration_id)
    return {"logs": migration.task.logs if migration.task else []}


@admin.post("/migration/<migration_id>/stop", op="stop", can=WRITE_PERMISSION, out=Asked)
def stop(migration_id):
    """Stop a migration.

    The instance stays on its hypervisor, and copied data is deleted. Returns 409 `not_cancellable` if the migration has
    ended.
    """
    kit.set_message("Stop requested.")
    return {"task_id": migrations.stop(migrations.get(migration_id)).id}


@admin.post("/migration/<migration_id>/restart", op="restart", can=WRITE_PERMISSION, out=Moving)
def restart(migration_id):
    """Retry a migration that failed or was stopped.

    Starts a new migration to the same hypervisor. Returns 409 if the migration has not failed, and for the reasons for
    which a migration is refused.
    """
    migration = migrations.get(migration_id)
    reachability.check_source(migration)
    return describe_start(migrations.restart(migration, actor=kit.get_current_actor()))


@admin.post("/migration/<migration_id>/rollback", op="rollback", can=WRITE_PERMISSION, out=Moving)
def rollback(migration_id):
    """Migrate an instance back to its previous hypervisor.

    Starts a new migration. Returns 409 if the instance is no longer on the target or was destroyed, and for the reasons
    for which a migration is refused.
    """
    migration = migrations.get(migration_id)
    reachability.check_source(migration)
    return describe_start(migrations.rollback(migration, actor=kit.get_current_actor()))


@admin.post("/migration/<migration_id>/complete", op="complete", can=WRITE_PERMISSION, out=Asked)
def complete(migration_id):
    """Delete the data that a migration left on its source.

    For migrations whose source did not respond after the instance had been moved (`cleanup_pending`).
    """
    kit.set_message("Deletion of the old disks requested.")
    return {"task_id": migrations.enqueue_cleanup(migrations.get(migration_id), actor=kit.get_current_actor()).id}


@instance_routes.post(
    "/instance/<instance_id>/cluster-migrate",
    op="migrate",
    can=WRITE_PERMISSION,
    body=MoveIn,
    out=Moving,
    aliases=[OLD_MIGRATE_PATH],
)
def migrate(body, instance_id):
    """Migrate an instance to another hypervisor of its location.

    `target_node` is the id or name of the hypervisor. A running guest keeps running. `online: true` requires a running
    instance, `online: false` a stopped one. If the migration fails, the instance stays on its hypervisor. Returns 422
    if the instance does not fit on the target; 409 `instance_running`, `not_running`, `task_running`, or the reason why
    the instance cannot leave its hypervisor (`has_volumes`, `has_media`, `has_snapshots`, `rescue_active`,
    `change_pending`); 503 `hypervisor_unreachable`.
    """
    instance, target = instances.get(instance_id), hypervisors.get_by_id_or_name(body["target_node"], "target_node")
    reachability.check_node(instance.hypervisor)
    return describe_start(
        migrations.start(instance, target=target, live=body.get("online"), actor=kit.get_current_actor())
    )


@instance_routes.get(
    "/instance/<instance_id>/cluster-migrate/precheck",
    op="migrate_precheck",
    can=READ_PERMISSION,
    query=PrecheckQuery,
    out=PrecheckOut,
    aliases=[f"{OLD_MIGRATE_PATH}/precheck"],
)
def precheck(query, instance_id):
    """Check whether an instance can be migrated.

    The check uses stored data: no hypervisor is contacted and nothing is reserved, so the migration can still be
    refused. Without `target_node`, all other hypervisors of the location are checked.
    """
    instance, checks = instances.get(instance_id), []
    if query.get("target_node"):
        target = hypervisors.get_by_id_or_name(query["target_node"], "target_node")
        results = migrations.run_checks(instance, target)
        checks = [SimpleNamespace(name=name, ok=ok, message=None if ok else reason) for name, ok, reason in results]
    others = [
        SimpleNamespace(hypervisor_id=hypervisor.id, name=hypervisor.name, ok=fault is None, message=fault)
        for hypervisor, fault in migrations.list_targets(instance)
    ]
    ok = all(check.ok for check in checks) if checks else any(other.ok for other in others)
    return {"ok": ok, "kind": "live" if instance.power == "on" else "cold", "checks": checks, "targets": others}


@hypervisor_routes.post(
    "/hypervisor/<hypervisor_id>/evacuate", op="evacuate", can="admin:hypervisors:write", out=Evacuation
)
def evacuate(hypervisor_id):
    """Migrate all instances away from a hypervisor.

    Puts the hypervisor into maintenance. Each instance is migrated to the hypervisor of its location with the most free
    capacity.
    """
    task = migrations.evacuate(hypervisors.get(hypervisor_id), actor=kit.get_current_actor())
    kit.set_message("Evacuation requested.")
    return {"task_id": task.id, "refused": task.arguments["refused"]}


def describe_start(row):
    kit.set_message("Migration requested.")
    return {"task_id": row.task_id, "migration_id": row.id}

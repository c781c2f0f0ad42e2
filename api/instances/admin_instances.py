"""All customers' instances, for operators."""

from api import kit
from api.instances import admin
from api.instances.actions import PASSWORD_FIELD, POWER_SUMMARIES, TASK_ID
from panel.core.errors import Invalid, NotFound
from panel.schemas.billing import TerminateIn
from panel.schemas.instances import (
    AddressOut,
    AdminInstanceIn,
    AdminInstanceOut,
    AdminInstanceRow,
    DeployIn,
    DiskOut,
    InstancePatch,
    InstanceQuery,
    NewHostname,
    Rename,
)
from panel.services import accounts, hypervisors, instances, isos


@admin.get(
    "/instances",
    op="list",
    can="admin:instances:read",
    query=InstanceQuery,
    out=kit.build_admin_page_schema(AdminInstanceRow),
)
def listing(query):
    """List the instances of all users, newest first.

    Filter with `search`, `state` and `project_id`. Destroyed instances are not included.
    """
    return kit.paginate(instances.select_rows(AdminInstanceRow.columns(), **query))


@admin.get(
    "/instances/user/<account_id>",
    op="list_by_user",
    can="admin:instances:read",
    query=InstanceQuery,
    out=kit.build_admin_page_schema(AdminInstanceRow),
)
def list_by_user(query, account_id):
    """List the instances of a user.

    Has the same rows and filters as the list of all instances. Returns 404 if the user does not exist.
    """
    rows = instances.select_rows(AdminInstanceRow.columns(), accounts.get(account_id), **query)
    return kit.paginate(rows)


@admin.get("/instance/<instance_id>", op="get", can="admin:instances:read", out=AdminInstanceOut)
def show(instance_id):
    """Get an instance.

    Contains disks, network interfaces, latest tasks and hypervisor. Returns 404 once it is destroyed.
    """
    return instances.get(instance_id)


@admin.post("/instances", op="create", can="admin:instances:write", body=AdminInstanceIn, out=AdminInstanceOut)
def create(body):
    """Create an instance for a user.

    Returns 422 under `hypervisor_id` for a hypervisor that is down, locked, in maintenance or closed for deployments.
    """
    owner = get_or_422(accounts.get, body.pop("user_id"), "user_id")
    node = body.pop("hypervisor_id", None)
    set_boot_iso(body, owner)
    body.setdefault("enable_vnc", "iso" in body)
    if node:
        body["node"] = ensure_open(get_or_422(hypervisors.get, node, "hypervisor_id"), body["location_id"])
    kit.set_message("Instance created. Deploy an image to it next.")
    return instances.create(owner, actor=kit.get_current_actor(), **body)


def set_boot_iso(body, owner):
    """Replace `iso_id` in the body by the ISO's row, with a boot order that starts from it."""
    if "iso_id" in body:
        body |= {"iso": isos.get_chosen(body.pop("iso_id"), owner), "boot": "cdrom,disk"}


def get_or_422(get, key, error_field):
    """Return `get(key)` for an id in a body. An unknown id raises Invalid for the field, not NotFound."""
    try:
        return get(key)
    except NotFound as error:
        raise Invalid(error.message, **{error_field: error.message}) from None


def ensure_open(node, location_id):
    if node.group_id != location_id:
        raise Invalid(
            "The hypervisor is in another location.", hypervisor_id="The hypervisor belongs to another location."
        )
    if node.unschedulable_reason:
        state = node.unschedulable_reason.removeprefix("hypervisor_").replace("_", " ")
        raise Invalid(
            "No instance can be placed on this hypervisor.", hypervisor_id=f"Status of the hypervisor: {state}."
        )
    return node


@admin.patch(
    "/instance/<instance_id>", op="update", can="admin:instances:write", body=InstancePatch, out=AdminInstanceOut
)
def update(body, instance_id):
    """Update labels, notes and settings of an instance.

    Only the fields you send are changed. An empty `display_name` or `hostname` leaves the value unchanged. A field that
    cannot be changed returns 422 and nothing is changed. A running guest keeps its host name until the next deployment,
    `boot` takes effect at the next start, and `enable_smtp` changes the firewall immediately.
    """
    kit.set_message("Instance updated.")
    return instances.update(instances.get(instance_id), actor=kit.get_current_actor(), **body)


@admin.put(
    "/instance/<instance_id>/modify/name", op="rename", can="admin:instances:write", body=Rename, out=AdminInstanceOut
)
def rename(body, instance_id):
    """Change the display name of an instance.

    The platform's own name never changes, and nothing changes in the guest. Returns 422 if neither `display_name` nor
    `name` is sent.
    """
    kit.set_message("Name updated.")
    return instances.update(instances.get(instance_id), **body)


@admin.put(
    "/instance/<instance_id>/modify/hostname",
    op="set_hostname",
    can="admin:instances:write",
    body=NewHostname,
    out=AdminInstanceOut,
)
def set_hostname(body, instance_id):
    """Change the host name of an instance.

    The guest gets it with the next deployment. Returns 422 for an invalid host name.
    """
    kit.set_message("Host name updated.")
    return instances.update(instances.get(instance_id), **body)


DEPLOY_ANSWER = kit.with_optional(
    kit.Schema.from_dict({"task_id": TASK_ID, "password": PASSWORD_FIELD}, name="Deploying"), ["password"]
)


@admin.post(
    "/instance/<instance_id>/deploy", op="deploy", can="admin:instances:write", body=DeployIn, out=DEPLOY_ANSWER
)
def deploy(body, instance_id):
    """Deploy an image to an instance.

    For an instance without an operating system. SSH keys of any account can be used. Poll the task until it is
    `completed` or `failed`; a failed deployment can be repeated. With SSH keys and without a password, no password is
    generated. Returns 409 `already_deployed` or `task_running`, and 422 for an image that does not fit the instance.
    """
    task, password = instances.deploy(instances.get(instance_id), actor=kit.get_current_actor(), **body)
    kit.set_message("Deployment requested.")
    return {"task_id": task.id, **({"password": password} if password else {})}


def add_power_route(action, summary):
    def act(instance_id):
        task = instances.run_power_action(
            instances.get(instance_id), action, actor=kit.get_current_actor(), by_operator=True
        )
        kit.set_message(instances.ACTIONS[action].result_message(task))

    act.__doc__ = summary
    admin.post(f"/instance/<instance_id>/power/{action}", op=action, can="admin:instances:write")(act)


for action, summary in POWER_SUMMARIES.items():
    add_power_route(action, summary)


@admin.delete(
    "/instance/<instance_id>",
    op="delete",
    can="admin:instances:write",
    body=TerminateIn,
    out=kit.Schema.from_dict({"task_id": TASK_ID}, name="Destroying"),
)
def destroy(body, instance_id):
    """Destroy an instance with its disks.

    Its addresses are released and billing ends; volumes are detached and kept. Backups are kept unless `delete_backups`
    is true; protected ones are kept in any case. Poll the instance until it returns 404.
    Returns 409 `protection_enabled` while delete protection is on, and 409 `task_running` during a migration.
    """
    task = instances.destroy(instances.get(instance_id), actor=kit.get_current_actor(), by_operator=True, **body)
    kit.set_message(instances.ACTIONS["destroy"].done_message)
    return {"task_id": task.id}


@admin.get(
    "/instance/<instance_id>/ips",
    op="ips",
    can="admin:instances:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(AddressOut),
)
def ips(instance_id):
    """List the addresses of an instance.

    Routed prefixes are not included; the instance lists them as `ipv6_prefixes`.
    """
    return kit.paginate(instances.select_addresses(instances.get(instance_id)))


@admin.get(
    "/instance/<instance_id>/disks",
    op="disks",
    can="admin:instances:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(DiskOut),
)
def disks(instance_id):
    """List the disks of an instance.

    The first one contains the operating system.
    """
    return kit.paginate(instances.select_disks(instances.get(instance_id)))

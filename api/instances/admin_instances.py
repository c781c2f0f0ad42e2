"""All customers' instances, for operators."""

from api import kit
from api.instances import admin
from api.instances.actions import PASSWORD_FIELD, POWER_SUMMARIES, TASK_ID
from panel.core.errors import Invalid, NotFound
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
    """List everybody's instances, newest first.

    `search`, `state` and `project_id` narrow the list. Destroyed instances are not in it.
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
    """List the instances of one user.

    The same rows and filters as the list of all instances. 404 when there is no such user.
    """
    rows = instances.select_rows(AdminInstanceRow.columns(), accounts.get(account_id), **query)
    return kit.paginate(rows)


@admin.get("/instance/<instance_id>", op="get", can="admin:instances:read", out=AdminInstanceOut)
def show(instance_id):
    """Show an instance.

    With its disks, network cards, latest tasks and hypervisor. 404 once it is destroyed.
    """
    return instances.get(instance_id)


@admin.post("/instances", op="create", can="admin:instances:write", body=AdminInstanceIn, out=AdminInstanceOut)
def create(body):
    """Create an instance for a user.

    A named hypervisor that is down, locked, in maintenance or closed to deploys answers 422 under `hypervisor_id`.
    """
    owner = get_or_422(accounts.get, body.pop("user_id"), "user_id")
    node = body.pop("hypervisor_id", None)
    set_boot_iso(body, owner)
    body.setdefault("enable_vnc", "iso" in body)
    if node:
        body["node"] = ensure_open(get_or_422(hypervisors.get, node, "hypervisor_id"), body["location_id"])
    kit.set_message("The instance is created. Deploy an image to it next.")
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
        raise Invalid("The hypervisor is in another location.", hypervisor_id="It belongs to another group.")
    if node.unschedulable_reason:
        state = node.unschedulable_reason.removeprefix("hypervisor_").replace("_", " ")
        raise Invalid("No machine can be placed on this hypervisor.", hypervisor_id=f"It is {state}.")
    return node


@admin.patch(
    "/instance/<instance_id>", op="update", can="admin:instances:write", body=InstancePatch, out=AdminInstanceOut
)
def update(body, instance_id):
    """Change labels, notes and switches.

    Only what is sent changes. `display_name` and `hostname` as `""` mean unchanged; a key that is not writable answers
    422 and nothing is changed. A running guest keeps its host name until its next deploy; `boot` counts at the next
    start; `enable_smtp` changes the firewall at once.
    """
    kit.set_message("The instance is changed.")
    return instances.update(instances.get(instance_id), actor=kit.get_current_actor(), **body)


@admin.put(
    "/instance/<instance_id>/modify/name", op="rename", can="admin:instances:write", body=Rename, out=AdminInstanceOut
)
def rename(body, instance_id):
    """Change the label.

    The platform's own name never changes. 422 when neither `display_name` nor `name` is sent. Nothing changes in the
    guest.
    """
    kit.set_message("The label is changed.")
    return instances.update(instances.get(instance_id), **body)


@admin.put(
    "/instance/<instance_id>/modify/hostname",
    op="set_hostname",
    can="admin:instances:write",
    body=NewHostname,
    out=AdminInstanceOut,
)
def set_hostname(body, instance_id):
    """Change the host name.

    The guest takes it at its next deploy. A name that is no host name answers 422.
    """
    kit.set_message("The host name is changed.")
    return instances.update(instances.get(instance_id), **body)


DEPLOY_ANSWER = kit.with_optional(
    kit.Schema.from_dict({"task_id": TASK_ID, "password": PASSWORD_FIELD}, name="Deploying"), ["password"]
)


@admin.post(
    "/instance/<instance_id>/deploy", op="deploy", can="admin:instances:write", body=DeployIn, out=DEPLOY_ANSWER
)
def deploy(body, instance_id):
    """Install an operating system.

    Any account's keys may be named. For an instance without a system: poll the task until it is `completed` or
    `failed`; a failed deploy can be sent again. With keys and no password, no password is made. Refused with 409
    `already_deployed` or `task_running`, and with 422 for an image that does not fit.
    """
    task, password = instances.deploy(instances.get(instance_id), actor=kit.get_current_actor(), **body)
    kit.set_message("The instance is being deployed.")
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
    out=kit.Schema.from_dict({"task_id": TASK_ID}, name="Destroying"),
)
def destroy(instance_id):
    """Destroy an instance with its disks.

    Refused with `protection_enabled`. Its addresses are free again and it costs nothing any more; volumes are detached
    and stay. Poll the instance until it answers 404. Also refused with 409 `task_running` while it moves to another
    hypervisor.
    """
    task = instances.destroy(instances.get(instance_id), actor=kit.get_current_actor(), by_operator=True)
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

    Without the prefixes that are routed to it, which the instance itself lists as `ipv6_prefixes`.
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

    The first one holds the operating system.
    """
    return kit.paginate(instances.select_disks(instances.get(instance_id)))

"""Customers' instances: list, get, create, update."""

from flask import request

from api import kit
from api.instances import user
from panel.schemas.instances import (
    AddressOut,
    DiskOut,
    InstanceIn,
    InstanceOut,
    InstancePatch,
    InstanceQuery,
    InstanceRow,
)
from panel.services import instances

READ_METHODS = ("GET", "HEAD")


def get_own_instance(instance_id, *, even_suspended=False):
    """Return the caller's instance. Raises Conflict when it is suspended, the method writes and `even_suspended` is not
    set."""
    instance = instances.get(instance_id, kit.get_current_access())
    if request.method not in READ_METHODS and not even_suspended:
        instances.ensure_not_suspended(instance)
    return instance


@user.get("/instances", op="list", can="instances.view", query=InstanceQuery, out=kit.build_page_schema(InstanceRow))
def listing(query):
    """List instances, newest first."""
    return kit.paginate(instances.select_rows(InstanceRow.columns(), kit.get_current_access(), **query))


@user.get("/instance/<instance_id>", op="get", can="instances.view", out=InstanceOut)
def show(instance_id):
    """Get an instance.

    Returns the object itself, without a wrapper. Returns 404 once it is destroyed.
    """
    return get_own_instance(instance_id)


@user.patch(
    "/instance/<instance_id>",
    op="update",
    can="instances.manage",
    body=InstancePatch,
    out=kit.build_wrapped_schema("instance", InstanceOut),
)
def update(body, instance_id):
    """Update labels, notes and settings of an instance."""
    return {
        "message": "Instance updated.",
        "instance": instances.update(get_own_instance(instance_id), actor=kit.get_current_actor(), **body),
    }


CREATED_MESSAGE = "Instance created. Deploy an image to it next."


@user.post(
    "/cloud-service/instances",
    op="create",
    can="instances.create",
    body=InstanceIn,
    out=kit.build_wrapped_schema("instance", InstanceOut),
)
def create(body):
    """Create an instance.

    This is the first of two steps: it allocates addresses and capacity, but creates no VM yet; deploy an image next.
    Insufficient capacity returns 422 with a reason: `storage_not_sufficient`, `resources_not_sufficient`,
    `ipv4_not_available`, `ipv6_not_available`, `ipv6_subnet_not_available`, `private_ipv4_not_available`,
    `hypervisor_not_available`. A refused request creates nothing. `display_name` defaults to the host name, and the
    host name to the platform's name (`name`); both can be changed later.
    """
    return {
        "message": CREATED_MESSAGE,
        "instance": instances.create(kit.get_current_access(), actor=kit.get_current_actor(), **body),
    }


@user.get(
    "/instance/<instance_id>/ips",
    op="list_ips",
    can="instances.view",
    out=kit.build_page_schema(AddressOut),
    query=kit.PageQuery,
)
def ips(instance_id):
    """List the addresses of an instance."""
    return kit.paginate(instances.select_addresses(get_own_instance(instance_id)))


@user.get(
    "/instance/<instance_id>/disks",
    op="list_disks",
    can="instances.view",
    out=kit.build_page_schema(DiskOut),
    query=kit.PageQuery,
)
def disks(instance_id):
    """List the disks of an instance."""
    return kit.paginate(instances.select_disks(get_own_instance(instance_id)))

"""IP sets: named lists of networks for rules of security groups."""

from marshmallow import fields

from api import kit
from panel.schemas.base import describe
from panel.schemas.ip_sets import (
    AdminIpSetIn,
    AdminIpSetOut,
    AdminIpSetRow,
    IpSetBulk,
    IpSetEntryIn,
    IpSetEntryOut,
    IpSetIn,
    IpSetOut,
    IpSetPatch,
    IpSetQuery,
    IpSetRefusal,
    IpSetRow,
)
from panel.services import accounts, ip_sets

user = kit.User("ip_set", __name__, description="IP sets for firewall rules")
admin = kit.Admin("ip_set", __name__, description="IP sets for firewall rules")
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = "ip_sets.view", "ip_sets.manage", "ip_sets.delete"
READ_PERMISSION, WRITE_PERMISSION = "admin:ip_sets:read", "admin:ip_sets:write"

CREATED_ENTRIES_FIELD = fields.List(fields.Nested(IpSetEntryOut), **describe("The new entries."))
ENTRY_ERRORS_FIELD = fields.List(
    fields.Nested(IpSetRefusal), **describe("Entries that could not be added, with the reason.")
)


def get_own_ip_set(set_id):
    return ip_sets.get_own(set_id, kit.get_current_access())


@user.get("/ip-sets", op="list", can=VIEW_PERMISSION, query=IpSetQuery, out=kit.build_page_schema(IpSetRow))
def listing(query):
    """List your own and the platform's IP sets, by name."""
    return kit.paginate(ip_sets.listing(kit.get_current_access(), **query))


@user.post(
    "/ip-sets", op="create", can=MANAGE_PERMISSION, body=IpSetIn, out=kit.build_wrapped_schema("ip_set", IpSetOut)
)
def create(body):
    """Create an IP set."""
    return {"message": "IP set created.", "ip_set": ip_sets.create(kit.get_current_access(), **body)}


@user.get("/ip-set/<set_id>", op="get", can=VIEW_PERMISSION, out=kit.build_wrapped_schema("ip_set", IpSetOut))
def show(set_id):
    """Get an IP set with its entries."""
    return {"message": None, "ip_set": ip_sets.get(set_id, kit.get_current_access())}


@user.patch(
    "/ip-set/<set_id>",
    op="update",
    can=MANAGE_PERMISSION,
    body=IpSetPatch,
    out=kit.build_wrapped_schema("ip_set", IpSetOut),
)
def update(body, set_id):
    """Update an IP set.

    Only the fields you send are changed. `ip_version` cannot be changed while the set has entries or rules refer to it.
    """
    return {"message": "IP set updated.", "ip_set": ip_sets.update(get_own_ip_set(set_id), **body)}


@user.delete("/ip-set/<set_id>", op="delete", can=DELETE_PERMISSION, out=kit.build_result_schema())
def delete(set_id):
    """Delete an IP set.

    Returns 409 while a rule refers to it.
    """
    ip_sets.delete(get_own_ip_set(set_id))
    return {"message": "IP set deleted."}


@user.post(
    "/ip-set/<set_id>/entries",
    op="add_entry",
    can=MANAGE_PERMISSION,
    body=IpSetEntryIn,
    out=kit.build_wrapped_schema("entry", IpSetEntryOut),
)
def add_entry(body, set_id):
    """Add a network to an IP set.

    Running instances with rules that refer to the set are updated within seconds.
    """
    return {
        "message": "Network added.",
        "entry": ip_sets.add_entry(get_own_ip_set(set_id), actor=kit.get_current_actor(), **body),
    }


@user.post(
    "/ip-set/<set_id>/bulk-add",
    op="bulk_add",
    can=MANAGE_PERMISSION,
    body=IpSetBulk,
    out=kit.build_result_schema(created=CREATED_ENTRIES_FIELD, errors=ENTRY_ERRORS_FIELD),
)
def bulk_add(body, set_id):
    """Add several networks to an IP set.

    Networks that cannot be added are listed in `errors`; the others are added.
    """
    return add_many(get_own_ip_set(set_id), body["cidrs"])


def add_many(ip_set, cidrs):
    entries, failures = ip_sets.add_entries(ip_set, cidrs, actor=kit.get_current_actor())
    errors = [{"cidr": cidr, "message": message} for cidr, message in failures]
    return {"message": f"{len(entries)} of {len(cidrs)} networks added.", "created": entries, "errors": errors}


@user.delete(
    "/ip-set/<set_id>/entry/<entry_id>", op="remove_entry", can=MANAGE_PERMISSION, out=kit.build_result_schema()
)
def remove_entry(set_id, entry_id):
    """Remove a network from an IP set."""
    ip_sets.remove_entry(get_own_ip_set(set_id), entry_id, actor=kit.get_current_actor())
    return {"message": "Network removed."}


@admin.get("/ip-sets", op="list", can=READ_PERMISSION, query=IpSetQuery, out=kit.build_admin_page_schema(AdminIpSetRow))
def admin_listing(query):
    """List the IP sets of all users and the platform, by name.

    `account_id` is null for sets of the platform.
    """
    return kit.paginate(ip_sets.listing(**query))


@admin.post("/ip-sets", op="create", can=WRITE_PERMISSION, body=AdminIpSetIn, out=AdminIpSetOut)
def admin_create(body):
    """Create an IP set for a user or for the whole platform.

    `user_id: null` creates a set of the platform, which all users can use. The set is empty; `ip_version` determines
    which networks it accepts. Returns 422 if the user does not exist.
    """
    owner = body.pop("user_id")
    kit.set_message("IP set created.")
    return ip_sets.create(owner and accounts.get(owner, "user_id"), **body)


@admin.get("/ip-set/<set_id>", op="get", can=READ_PERMISSION, out=AdminIpSetOut)
def admin_show(set_id):
    """Get an IP set with its entries.

    The entries are sorted by address. Returns 404 if the set does not exist.
    """
    return ip_sets.get(set_id)


@admin.patch("/ip-set/<set_id>", op="update", can=WRITE_PERMISSION, body=IpSetPatch, out=AdminIpSetOut)
def admin_update(body, set_id):
    """Update an IP set.

    Only the fields you send are changed. Returns 422 for a change of `ip_version` while the set has entries. Use the
    operations for entries to change the networks.
    """
    kit.set_message("IP set updated.")
    return ip_sets.update(ip_sets.get_own(set_id), **body)


@admin.delete("/ip-set/<set_id>", op="delete", can=WRITE_PERMISSION)
def admin_delete(set_id):
    """Delete an IP set with its entries.

    Returns 409 while a rule refers to it: delete those rules first.
    """
    ip_sets.delete(ip_sets.get_own(set_id))
    kit.set_message("IP set deleted.")


@admin.post("/ip-set/<set_id>/entries", op="add_entry", can=WRITE_PERMISSION, body=IpSetEntryIn, out=IpSetEntryOut)
def admin_add_entry(body, set_id):
    """Add a network to an IP set.

    Running instances with rules that refer to the set are updated within seconds. Returns 422 under `cidr` for a
    network of the other IP version, for one that is already in the set, and if the set is full.
    """
    kit.set_message("Network added.")
    return ip_sets.add_entry(ip_sets.get_own(set_id), actor=kit.get_current_actor(), **body)


BULK_RESPONSE = kit.Schema.from_dict(
    {"created": CREATED_ENTRIES_FIELD, "errors": ENTRY_ERRORS_FIELD}, name="IpSetBulkResult"
)


@admin.post("/ip-set/<set_id>/bulk-entries", op="bulk_add", can=WRITE_PERMISSION, body=IpSetBulk, out=BULK_RESPONSE)
def admin_bulk_add(body, set_id):
    """Add several networks to an IP set.

    Networks that cannot be added are listed in `errors`; the others are added. Running instances are updated within
    seconds.
    """
    answer = add_many(ip_sets.get_own(set_id), body["cidrs"])
    kit.set_message(answer.pop("message"))
    return answer


@admin.delete("/ip-set/<set_id>/entry/<entry_id>", op="remove_entry", can=WRITE_PERMISSION)
def admin_remove_entry(set_id, entry_id):
    """Remove a network from an IP set.

    Running instances with rules that refer to the set are updated within seconds. Returns 404 if the set has no such
    entry.
    """
    ip_sets.remove_entry(ip_sets.get_own(set_id), entry_id, actor=kit.get_current_actor())
    kit.set_message("Network removed.")

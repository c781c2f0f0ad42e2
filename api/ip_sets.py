"""IP sets: named lists of networks for the rules of security groups."""

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

user = kit.User("ip_set", __name__, description="Sets of networks for rules")
admin = kit.Admin("ip_set", __name__, description="Sets of networks for rules")
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = "ip_sets.view", "ip_sets.manage", "ip_sets.delete"
READ_PERMISSION, WRITE_PERMISSION = "admin:ip_sets:read", "admin:ip_sets:write"

CREATED_ENTRIES_FIELD = fields.List(fields.Nested(IpSetEntryOut), **describe("The entries that were made."))
ENTRY_ERRORS_FIELD = fields.List(fields.Nested(IpSetRefusal), **describe("What could not be added, and why."))


def get_own_ip_set(set_id):
    return ip_sets.get_own(set_id, kit.get_current_access())


@user.get("/ip-sets", op="list", can=VIEW_PERMISSION, query=IpSetQuery, out=kit.build_page_schema(IpSetRow))
def listing(query):
    """List IP sets by name: one's own and the platform's."""
    return kit.paginate(ip_sets.listing(kit.get_current_access(), **query))


@user.post(
    "/ip-sets", op="create", can=MANAGE_PERMISSION, body=IpSetIn, out=kit.build_wrapped_schema("ip_set", IpSetOut)
)
def create(body):
    """Make an IP set."""
    return {"message": "The set is made.", "ip_set": ip_sets.create(kit.get_current_access(), **body)}


@user.get("/ip-set/<set_id>", op="get", can=VIEW_PERMISSION, out=kit.build_wrapped_schema("ip_set", IpSetOut))
def show(set_id):
    """Show an IP set with its entries."""
    return {"message": None, "ip_set": ip_sets.get(set_id, kit.get_current_access())}


@user.patch(
    "/ip-set/<set_id>",
    op="update",
    can=MANAGE_PERMISSION,
    body=IpSetPatch,
    out=kit.build_wrapped_schema("ip_set", IpSetOut),
)
def update(body, set_id):
    """Change an IP set.

    Only what is sent changes. The version stays once there are entries or rules that refer to the set.
    """
    return {"message": "The set is changed.", "ip_set": ip_sets.update(get_own_ip_set(set_id), **body)}


@user.delete("/ip-set/<set_id>", op="delete", can=DELETE_PERMISSION, out=kit.build_result_schema())
def delete(set_id):
    """Remove an IP set.

    Refused while a rule refers to it.
    """
    ip_sets.delete(get_own_ip_set(set_id))
    return {"message": "The set is removed."}


@user.post(
    "/ip-set/<set_id>/entries",
    op="add_entry",
    can=MANAGE_PERMISSION,
    body=IpSetEntryIn,
    out=kit.build_wrapped_schema("entry", IpSetEntryOut),
)
def add_entry(body, set_id):
    """Add a network.

    Every running instance whose rules refer to the set gets the new rules within seconds.
    """
    return {
        "message": "The network is added.",
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
    """Add many networks.

    Those that cannot be added are listed under `errors`; the others are added.
    """
    return add_many(get_own_ip_set(set_id), body["cidrs"])


def add_many(ip_set, cidrs):
    entries, failures = ip_sets.add_entries(ip_set, cidrs, actor=kit.get_current_actor())
    errors = [{"cidr": cidr, "message": message} for cidr, message in failures]
    return {"message": f"{len(entries)} of {len(cidrs)} are added.", "created": entries, "errors": errors}


@user.delete(
    "/ip-set/<set_id>/entry/<entry_id>", op="remove_entry", can=MANAGE_PERMISSION, out=kit.build_result_schema()
)
def remove_entry(set_id, entry_id):
    """Remove a network."""
    ip_sets.remove_entry(get_own_ip_set(set_id), entry_id, actor=kit.get_current_actor())
    return {"message": "The network is removed."}


@admin.get("/ip-sets", op="list", can=READ_PERMISSION, query=IpSetQuery, out=kit.build_admin_page_schema(AdminIpSetRow))
def admin_listing(query):
    """List everybody's IP sets and the platform's.

    By name. `account_id` is null for the platform's.
    """
    return kit.paginate(ip_sets.listing(**query))


@admin.post("/ip-sets", op="create", can=WRITE_PERMISSION, body=AdminIpSetIn, out=AdminIpSetOut)
def admin_create(body):
    """Make an IP set for a user, or one of the platform's that everybody may use.

    `user_id: null` makes one of the platform's. It is empty; its `ip_version` says which networks it takes. 422 for an
    unknown user.
    """
    owner = body.pop("user_id")
    kit.set_message("The set is made.")
    return ip_sets.create(owner and accounts.get(owner, "user_id"), **body)


@admin.get("/ip-set/<set_id>", op="get", can=READ_PERMISSION, out=AdminIpSetOut)
def admin_show(set_id):
    """Show an IP set with its entries.

    Entries in the order of their addresses.
    """
    return ip_sets.get(set_id)


@admin.patch("/ip-set/<set_id>", op="update", can=WRITE_PERMISSION, body=IpSetPatch, out=AdminIpSetOut)
def admin_update(body, set_id):
    """Change an IP set.

    Only what is sent changes. `ip_version` cannot change while there are entries (422). Entries have operations of
    their own.
    """
    kit.set_message("The set is changed.")
    return ip_sets.update(ip_sets.get_own(set_id), **body)


@admin.delete("/ip-set/<set_id>", op="delete", can=WRITE_PERMISSION)
def admin_delete(set_id):
    """Remove an IP set.

    Refused while a rule refers to it. That is a 409: remove those rules first. Its entries go with it.
    """
    ip_sets.delete(ip_sets.get_own(set_id))
    kit.set_message("The set is removed.")


@admin.post("/ip-set/<set_id>/entries", op="add_entry", can=WRITE_PERMISSION, body=IpSetEntryIn, out=IpSetEntryOut)
def admin_add_entry(body, set_id):
    """Add a network.

    Rules that refer to the set apply it to running instances within seconds. 422 under `cidr` for a network of the
    other version, one that is in the set, or a full set.
    """
    kit.set_message("The network is added.")
    return ip_sets.add_entry(ip_sets.get_own(set_id), actor=kit.get_current_actor(), **body)


BULK_RESPONSE = kit.Schema.from_dict(
    {"created": CREATED_ENTRIES_FIELD, "errors": ENTRY_ERRORS_FIELD}, name="IpSetBulkResult"
)


@admin.post("/ip-set/<set_id>/bulk-entries", op="bulk_add", can=WRITE_PERMISSION, body=IpSetBulk, out=BULK_RESPONSE)
def admin_bulk_add(body, set_id):
    """Add many networks.

    Those that cannot be added are listed under `errors`; the others are added. At once for all: running instances
    follow within seconds.
    """
    answer = add_many(ip_sets.get_own(set_id), body["cidrs"])
    kit.set_message(answer.pop("message"))
    return answer


@admin.delete("/ip-set/<set_id>/entry/<entry_id>", op="remove_entry", can=WRITE_PERMISSION)
def admin_remove_entry(set_id, entry_id):
    """Remove a network.

    Rules that refer to the set follow within seconds. 404 when the set has no such entry.
    """
    ip_sets.remove_entry(ip_sets.get_own(set_id), entry_id, actor=kit.get_current_actor())
    kit.set_message("The network is removed.")

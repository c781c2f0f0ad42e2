"""Profiles of hypervisors for micro VMs, for operators."""

from api import kit
from api.microvms import admin
from api.microvms.admin_microvms import READ_PERMISSION, WRITE_PERMISSION
from panel.schemas.microvms import MicrovmProfileIn, MicrovmProfileOut, MicrovmProfilePatch, MicrovmProfileQuery
from panel.services.microvms import profiles


@admin.get(
    "/microvm/profiles",
    op="profiles",
    can=READ_PERMISSION,
    query=MicrovmProfileQuery,
    out=kit.build_admin_page_schema(MicrovmProfileOut),
)
def listing(query):
    """List the micro VM profiles, by the hypervisors' names.

    A hypervisor without a profile takes no micro VMs.
    """
    return kit.paginate(profiles.listing(**query))


@admin.post(
    "/microvm/profiles", op="profile_create", can=WRITE_PERMISSION, body=MicrovmProfileIn, out=MicrovmProfileOut
)
def create(body):
    """Add a micro VM profile to a hypervisor.

    422 under `hypervisor_id` for an unknown hypervisor, and for one that has a profile.
    """
    kit.set_message("Profile added.")
    return profiles.create(**body)


@admin.patch(
    "/microvm/profile/<profile_id>",
    op="profile_update",
    can=WRITE_PERMISSION,
    body=MicrovmProfilePatch,
    out=MicrovmProfileOut,
)
def update(body, profile_id):
    """Change a micro VM profile.

    Only what is sent changes. Micro VMs above a lowered limit stay.
    """
    kit.set_message("Profile updated.")
    return profiles.update(profiles.get(profile_id), **body)


@admin.delete("/microvm/profile/<profile_id>", op="profile_delete", can=WRITE_PERMISSION)
def delete(profile_id):
    """Remove a micro VM profile.

    Refused with 409 `has_microvms` while micro VMs are on the hypervisor: turn it off instead.
    """
    profiles.delete(profiles.get(profile_id))
    kit.set_message("Profile removed.")

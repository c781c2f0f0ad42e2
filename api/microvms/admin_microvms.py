"""All customers' micro VMs, for operators."""

from api import kit
from api.microvms import admin
from panel.schemas.microvms import AdminMicrovmOut, AdminMicrovmQuery
from panel.services import microvms

READ_PERMISSION, WRITE_PERMISSION = "admin:microvm:read", "admin:microvm:write"


@admin.get(
    "/microvm/vms",
    op="list",
    can=READ_PERMISSION,
    query=AdminMicrovmQuery,
    out=kit.build_admin_page_schema(AdminMicrovmOut),
)
def listing(query):
    """List everybody's micro VMs, newest first.

    Those that were destroyed are left out. `search` narrows the list to names.
    """
    return kit.paginate(microvms.listing(**query))


@admin.get("/microvm/vm/<microvm_id>", op="get", can=READ_PERMISSION, out=AdminMicrovmOut)
def show(microvm_id):
    """Show a micro VM.

    404 when there is no such micro VM, or it was destroyed.
    """
    return microvms.get(microvm_id)


@admin.delete("/microvm/vm/<microvm_id>", op="delete", can=WRITE_PERMISSION)
def delete(microvm_id):
    """Destroy a micro VM with its disk and snapshots, in any state.

    The panel tries again until nothing is left on the hypervisor.
    """
    microvms.destroy(microvms.get(microvm_id), actor=kit.get_current_actor())
    kit.set_message("Destruction requested.")

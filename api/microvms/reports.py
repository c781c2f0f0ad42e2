"""Logs and load of customers' micro VMs."""

from marshmallow import fields

from api import kit
from api.microvms import user
from api.microvms.customer import VIEW_PERMISSION, VM_PATH, get_own_microvm
from panel.schemas.base import describe
from panel.schemas.microvm_reports import MicrovmGuestUsageOut, MicrovmLogEntryOut, MicrovmLogQuery
from panel.schemas.microvms import MicrovmUsageOut
from panel.services import microvms

METRICS_RESPONSE = kit.Done.from_dict(
    {
        "metrics": fields.Nested(
            MicrovmUsageOut, allow_none=True, **describe("What the hypervisor measures; null while there is nothing.")
        ),
        "guest": fields.Nested(
            MicrovmGuestUsageOut,
            allow_none=True,
            **describe("What the micro VM measures itself; null while there is nothing."),
        ),
    },
    name="MicrovmMetrics",
)
LOGS_RESPONSE = kit.Done.from_dict(
    {"logs": fields.List(fields.Nested(MicrovmLogEntryOut), **describe("The entries, oldest first."))},
    name="MicrovmLogs",
)


@user.get(f"{VM_PATH}/metrics", op="metrics", can=VIEW_PERMISSION, out=METRICS_RESPONSE)
def metrics(microvm_id):
    """Show what a micro VM uses, measured over the last 15 seconds.

    `metrics` is null while it does not run, and for half a minute after it was started. `guest` is also null for images
    without the panel's guest program, and on installations without a router for sandboxes.
    """
    microvm = get_own_microvm(microvm_id)
    guest = microvms.guest_reports.find_live_sample(microvm)
    return {"metrics": microvms.usages.find(microvm), "guest": guest}


@user.get(f"{VM_PATH}/logs", op="logs", can=VIEW_PERMISSION, query=MicrovmLogQuery, out=LOGS_RESPONSE)
def logs(query, microvm_id):
    """Show the latest entries of a micro VM's log.

    These are warnings of its kernel, processes that were started through its daemon and ended, and refused requests.
    The latest 1000 are stored until it is destroyed. There are none on installations without a router for sandboxes.
    """
    limit = query.pop("limit")
    entries = microvms.guest_reports.list_log(get_own_microvm(microvm_id), limit, newest_first=True, **query)
    return {"logs": entries[::-1]}

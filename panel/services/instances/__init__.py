"""What can be done with an instance, and when. Callers have been authorised; ids were fetched through their owner."""

from panel.services.instances import rescue
from panel.services.instances.actions import act, deploy, destroy, last_deploy
from panel.services.instances.bulk import NEEDS as BULK_NEEDS
from panel.services.instances.bulk import chosen, each
from panel.services.instances.bulk import counts as bulk_counts
from panel.services.instances.bulk import status as bulk_status
from panel.services.instances.create import create, full_locations, shortages
from panel.services.instances.drives import mount, unmount
from panel.services.instances.first_boot import misfit
from panel.services.instances.guest import push_keys, report, reset_password, unreachable
from panel.services.instances.hardware_options import no_secure_boot, no_tpm
from panel.services.instances.hardware_options import secure_boot as switch_secure_boot
from panel.services.instances.hardware_options import tpm as switch_tpm
from panel.services.instances.hardware_options import vnc as switch_vnc
from panel.services.instances.plans import change_plan
from panel.services.instances.read import (
    addresses,
    ailing,
    by_id,
    by_state,
    disks,
    get,
    listing,
    plain_among,
    rows,
    self_provisioned,
)
from panel.services.instances.reinstall import reinstall
from panel.services.instances.suspension import suspend, unsuspend
from panel.services.instances.tags import set_tags
from panel.services.instances.update import update
from panel.services.state_machine import ACTIONS, WORDS, refusal, refuse_suspended

__all__ = [
    "ACTIONS",
    "BULK_NEEDS",
    "WORDS",
    "act",
    "addresses",
    "ailing",
    "bulk_counts",
    "bulk_status",
    "by_id",
    "by_state",
    "change_plan",
    "chosen",
    "create",
    "deploy",
    "destroy",
    "disks",
    "each",
    "full_locations",
    "get",
    "last_deploy",
    "listing",
    "misfit",
    "mount",
    "no_secure_boot",
    "no_tpm",
    "plain_among",
    "push_keys",
    "refusal",
    "refuse_suspended",
    "reinstall",
    "report",
    "rescue",
    "reset_password",
    "rows",
    "self_provisioned",
    "set_tags",
    "shortages",
    "suspend",
    "switch_secure_boot",
    "switch_tpm",
    "switch_vnc",
    "unmount",
    "unreachable",
    "unsuspend",
    "update",
]

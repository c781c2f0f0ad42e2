"""What can be done with an instance, and when. Callers have been authorised; ids were fetched through their owner."""

from panel.services.instances.actions import act, deploy, destroy, misfit
from panel.services.instances.create import create
from panel.services.instances.read import addresses, by_id, disks, get, listing, rows
from panel.services.instances.rules import ACTIONS, refusal
from panel.services.instances.update import update

__all__ = [
    "ACTIONS",
    "act",
    "addresses",
    "by_id",
    "create",
    "deploy",
    "destroy",
    "disks",
    "get",
    "listing",
    "misfit",
    "refusal",
    "rows",
    "update",
]

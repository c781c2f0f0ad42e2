"""What can be done with an instance, and when. Callers have been authorised; ids were fetched through their owner."""

from panel.services.instances.actions import act, deploy, destroy, last_deploy, misfit
from panel.services.instances.create import create, shortages
from panel.services.instances.read import addresses, ailing, by_id, by_state, disks, get, listing, rows
from panel.services.instances.rules import ACTIONS, WORDS, refusal
from panel.services.instances.suspension import suspend, unsuspend
from panel.services.instances.update import update

__all__ = [
    "ACTIONS",
    "WORDS",
    "act",
    "addresses",
    "ailing",
    "by_id",
    "by_state",
    "create",
    "deploy",
    "destroy",
    "disks",
    "get",
    "last_deploy",
    "listing",
    "misfit",
    "refusal",
    "rows",
    "shortages",
    "suspend",
    "unsuspend",
    "update",
]

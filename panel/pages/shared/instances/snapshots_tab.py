"""What the tab with an instance's snapshots and its live session shows."""

from panel.pages.shared.area import refusal as not_permitted
from panel.schemas.snapshots import SnapshotIn
from panel.services import forges, instances, snapshots
from panel.web.forms import Form

IN_SESSION = "A live session is active. Commit or discard it first."
FORGE = ("enable", "commit", "discard")


def shown(instance):
    """What the tab reads."""
    no = not_permitted("instances.manage")
    why = {action: no or forges.WORDS.get(forges.refusal(instance, action)) for action in FORGE}
    past = [each for each in instance.forges if not (each.active or each.status == "creating")]
    found = {"forge": forges.latest(instance), "why_not": why, "past": past}
    held = snapshots.why_not(instance)
    no = no or (held and forges.WORDS.get(held, instances.WORDS[held])) or (forges.in_use(instance) and IN_SESSION)
    return {**found, "no_snapshots": no or None, "form": Form(SnapshotIn), "kept": snapshots.listing(instance)}

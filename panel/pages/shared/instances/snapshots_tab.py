"""What the tab with an instance's snapshots and its live session shows."""

from panel.pages.shared.area import permission_error as not_permitted
from panel.schemas.snapshots import SnapshotIn
from panel.services import forges, instances, snapshots
from panel.web.forms import Form

IN_SESSION_MESSAGE = "A live session is active. Commit or discard it first."
FORGE_ACTIONS = ("enable", "commit", "discard")


def build_context(instance):
    """What the tab reads."""
    no = not_permitted("instances.manage")
    why = {
        action: no or forges.LIVE_SESSION_REASONS.get(forges.action_error(instance, action)) for action in FORGE_ACTIONS
    }
    past = [each for each in instance.forges if not (each.active or each.status == "creating")]
    found = {"forge": forges.find_latest(instance), "why_not": why, "past": past}
    held = snapshots.change_error(instance)
    no = (
        no
        or (held and forges.LIVE_SESSION_REASONS.get(held, instances.REASONS[held]))
        or (forges.is_active(instance) and IN_SESSION_MESSAGE)
    )
    return {**found, "no_snapshots": no or None, "form": Form(SnapshotIn), "kept": snapshots.listing(instance)}

"""The context of the tab with an instance's snapshots and live-snapshot session."""

from panel.pages.shared.area import permission_error as not_permitted
from panel.schemas.snapshots import SnapshotIn
from panel.services import forges, instances, snapshots
from panel.web.forms import Form

IN_SESSION_MESSAGE = "A live session is active. Commit or discard it first."
FORGE_ACTIONS = ("enable", "commit", "discard")


def build_context(instance):
    """Return the context of the tab."""
    no = not_permitted("instances.manage")
    reasons = {
        action: no or forges.LIVE_SESSION_REASONS.get(forges.action_error(instance, action)) for action in FORGE_ACTIONS
    }
    past = [forge for forge in instance.forges if not (forge.active or forge.status == "creating")]
    context = {"forge": forges.find_latest(instance), "why_not": reasons, "past": past}
    error = snapshots.change_error(instance)
    no = (
        no
        or (error and forges.LIVE_SESSION_REASONS.get(error, instances.REASONS[error]))
        or (forges.is_active(instance) and IN_SESSION_MESSAGE)
    )
    return {**context, "no_snapshots": no or None, "form": Form(SnapshotIn), "kept": snapshots.listing(instance)}

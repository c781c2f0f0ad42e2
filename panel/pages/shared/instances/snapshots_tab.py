"""The context of the tab with an instance's snapshots and live-snapshot session."""

from panel.pages.shared.area import permission_error
from panel.schemas.snapshots import SnapshotIn
from panel.services import forges, instances, snapshots
from panel.web.forms import Form

FORGE_ACTIONS = ("enable", "commit", "discard")


def build_context(instance):
    """Return the context of the tab."""
    no = permission_error("instances.manage")
    reasons = {
        action: no or instances.REASON_MESSAGES.get(forges.action_error(instance, action)) for action in FORGE_ACTIONS
    }
    past_sessions = [forge for forge in instance.forges if not (forge.active or forge.status == "creating")]
    context = {"forge": forges.find_latest(instance), "disabled_reasons": reasons, "past_sessions": past_sessions}
    error = snapshots.change_error(instance) or ("already_active" if forges.is_active(instance) else None)
    return {
        **context,
        "snapshots_error": no or instances.REASON_MESSAGES.get(error),
        "form": Form(SnapshotIn),
        "snapshots": snapshots.listing(instance),
    }

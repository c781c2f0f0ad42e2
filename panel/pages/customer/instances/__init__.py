"""Instances: the list, creating one, and the pages of one."""

from flask import Blueprint, url_for

from panel.pages.shared import instances
from panel.pages.shared.instances.row_actions import find_search_actions
from panel.services.instances import select_with_problems
from panel.web.instance_states import describe_state
from panel.web.page_registry import NavigationEntry, PaletteAction, SearchResults

bp = Blueprint("instances", __name__, url_prefix="/instances")
NAVIGATION = NavigationEntry(
    "compute",
    "Instances",
    "instances.index",
    icon="server",
    permission="instances.view",
    position=10,
    shortcut="i",
    select_attention=select_with_problems,
)
PALETTE_ACTIONS = (
    PaletteAction("Create instance", "instances.new", icon="plus", permission="instances.create", position=10),
)
SEARCH_RESULTS = (
    SearchResults(
        "instance",
        "Instances",
        icon="server",
        url=lambda row: url_for("instances.show", instance_id=row.id),
        state_of=describe_state,
        find_actions=find_search_actions,
    ),
)
instances.register(bp)

from panel.pages.customer.instances import (  # noqa: E402  (they add their pages to bp)
    actions,  # noqa: F401
    backups,  # noqa: F401
    bulk,  # noqa: F401
    listing,  # noqa: F401
    new,  # noqa: F401
)

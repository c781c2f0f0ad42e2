"""IP sets of the account and of the platform."""

from flask import Blueprint, url_for

from panel.pages.shared.firewall import ip_sets
from panel.web.page_registry import NavigationEntry, SearchResults

bp = Blueprint("ip_sets", __name__, url_prefix="/ip-sets")
NAVIGATION = NavigationEntry(
    "network", "IP sets", "ip_sets.index", icon="list-details", permission="ip_sets.view", position=20
)
SEARCH_RESULTS = (
    SearchResults("ip_set", "IP sets", icon="list-details", url=lambda row: url_for("ip_sets.show", set_id=row.id)),
)
ip_sets.VIEWS.register(bp)

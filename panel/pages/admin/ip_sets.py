"""IP sets of all customers and of the platform."""

from flask import Blueprint, url_for

from panel.pages.shared.firewall import ip_sets
from panel.web.page_registry import NavigationEntry, SearchResults

bp = Blueprint("admin_ip_sets", __name__, url_prefix="/admin/ip-sets")
NAVIGATION = NavigationEntry(
    "platform", "IP sets", "admin_ip_sets.index", icon="list-details", permission="admin:ip_sets:read", position=60
)
SEARCH_RESULTS = (
    SearchResults(
        "ip_set", "IP sets", icon="list-details", url=lambda row_id: url_for("admin_ip_sets.show", set_id=row_id)
    ),
)
ip_sets.VIEWS.register(bp, is_operator_area=True)

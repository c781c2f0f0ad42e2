"""Security groups of the account and of the platform."""

from flask import Blueprint, url_for

from panel.pages.shared.firewall import security_groups
from panel.web.page_registry import NavigationEntry, SearchResults

bp = Blueprint("security_groups", __name__, url_prefix="/security-groups")
NAVIGATION = NavigationEntry(
    "network",
    "Security groups",
    "security_groups.index",
    icon="shield",
    permission="security_groups.view",
    position=10,
    shortcut="s",
)
SEARCH_RESULTS = (
    SearchResults(
        "security_group",
        "Security groups",
        icon="shield",
        url=lambda row: url_for("security_groups.show", group_id=row.id),
    ),
)
security_groups.VIEWS.register(bp)

"""Security groups of all customers and of the platform."""

from flask import Blueprint, url_for

from panel.pages.shared.firewall import security_groups
from panel.web.page_registry import NavigationEntry, SearchResults

bp = Blueprint("admin_security_groups", __name__, url_prefix="/admin/security-groups")
NAVIGATION = NavigationEntry(
    "platform",
    "Security groups",
    "admin_security_groups.index",
    icon="shield",
    permission="admin:security_groups:read",
    position=50,
)
SEARCH_RESULTS = (
    SearchResults(
        "security_group",
        "Security groups",
        icon="shield",
        url=lambda row_id: url_for("admin_security_groups.show", group_id=row_id),
    ),
)
security_groups.VIEWS.register(bp, is_operator_area=True)

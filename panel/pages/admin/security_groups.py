"""Security groups of all customers and of the platform."""

from flask import Blueprint

from panel.pages.shared.firewall import security_groups
from panel.web.page_registry import NavigationEntry

bp = Blueprint("admin_security_groups", __name__, url_prefix="/admin/security-groups")
NAVIGATION = NavigationEntry(
    "platform",
    "Security groups",
    "admin_security_groups.index",
    icon="shield",
    permission="admin:security_groups:read",
    position=50,
)
security_groups.VIEWS.register(bp, is_operator_area=True)

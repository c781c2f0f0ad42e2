"""Security groups of the account and of the platform."""

from flask import Blueprint

from panel.pages.shared.firewall import security_groups
from panel.web.page_registry import NavigationEntry

bp = Blueprint("security_groups", __name__, url_prefix="/security-groups")
NAVIGATION = NavigationEntry(
    "network", "Security groups", "security_groups.index", icon="shield", permission="security_groups.view", position=10
)
security_groups.VIEWS.register(bp)

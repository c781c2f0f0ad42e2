"""IP sets of all customers and of the platform."""

from flask import Blueprint

from panel.pages.shared.firewall import ip_sets
from panel.web.page_registry import NavigationEntry

bp = Blueprint("admin_ip_sets", __name__, url_prefix="/admin/ip-sets")
NAVIGATION = NavigationEntry(
    "platform", "IP sets", "admin_ip_sets.index", icon="list-details", permission="admin:ip_sets:read", position=60
)
ip_sets.VIEWS.register(bp, is_operator_area=True)

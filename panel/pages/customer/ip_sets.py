"""IP sets of the account and of the platform."""

from flask import Blueprint

from panel.pages.shared.firewall import ip_sets
from panel.web.page_registry import NavigationEntry

bp = Blueprint("ip_sets", __name__, url_prefix="/ip-sets")
NAVIGATION = NavigationEntry(
    "network", "IP sets", "ip_sets.index", icon="list-details", permission="ip_sets.view", position=20
)
ip_sets.VIEWS.register(bp)

"""Instances: the list, creating one, and the pages of one."""

from flask import Blueprint

from panel.pages.shared import instances
from panel.web.page_registry import NavigationEntry

bp = Blueprint("instances", __name__, url_prefix="/instances")
NAVIGATION = NavigationEntry(
    "compute", "Instances", "instances.index", icon="server", permission="instances.view", position=10
)
instances.register(bp)

from panel.pages.customer.instances import actions, bulk, listing, new  # noqa: E402, F401  (they add their pages to bp)

"""Instances: the list, creating one, and the pages of one."""

from flask import Blueprint

from panel.pages.shared import instances

bp = Blueprint("instances", __name__, url_prefix="/instances")
instances.register(bp)

from panel.pages.customer.instances import actions, bulk, listing, new  # noqa: E402, F401  (they add their pages to bp)

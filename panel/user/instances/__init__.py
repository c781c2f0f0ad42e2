"""Instances: the list, making one, and everything about one."""

from flask import Blueprint

from panel import instance_pages

bp = Blueprint("instances", __name__, url_prefix="/instances")
instance_pages.stand(bp)

from panel.user.instances import actions, bulk, new, rows  # noqa: E402, F401  (they add their pages to bp)

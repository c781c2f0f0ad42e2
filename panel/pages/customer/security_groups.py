"""Security groups of the account and of the platform."""

from flask import Blueprint

from panel.pages.shared.firewall import security_groups

bp = Blueprint("security_groups", __name__, url_prefix="/security-groups")
security_groups.VIEWS.register(bp)

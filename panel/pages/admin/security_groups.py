"""Security groups of all customers and of the platform."""

from flask import Blueprint

from panel.pages.shared.firewall import security_groups

bp = Blueprint("admin_security_groups", __name__, url_prefix="/admin/security-groups")
security_groups.VIEWS.register(bp, is_operator_area=True)

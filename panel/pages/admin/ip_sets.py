"""IP sets of all customers and of the platform."""

from flask import Blueprint

from panel.pages.shared.firewall import ip_sets

bp = Blueprint("admin_ip_sets", __name__, url_prefix="/admin/ip-sets")
ip_sets.VIEWS.register(bp, is_operator_area=True)

"""IP sets of the account and of the platform."""

from flask import Blueprint

from panel.pages.shared.firewall import ip_sets

bp = Blueprint("ip_sets", __name__, url_prefix="/ip-sets")
ip_sets.VIEWS.register(bp)

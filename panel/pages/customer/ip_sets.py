"""The account's IP sets and the platform's."""

from flask import Blueprint

from panel.pages.shared.firewall import ip_sets

bp = Blueprint("ip_sets", __name__, url_prefix="/ip-sets")
ip_sets.VIEWS.register(bp)

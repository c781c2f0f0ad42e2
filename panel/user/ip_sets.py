"""The account's IP sets and the platform's."""

from flask import Blueprint

from panel.firewall_pages import ip_sets

bp = Blueprint("ip_sets", __name__, url_prefix="/ip-sets")
ip_sets.PAGES.stand(bp)

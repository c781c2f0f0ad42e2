"""Certificates: what can be done with them, and when. Callers have been authorised."""

from panel.services.certificates.actions import create, delete, update
from panel.services.certificates.orders import answer_to, renew
from panel.services.certificates.read import get, latest_order, listing

__all__ = ["answer_to", "create", "delete", "get", "latest_order", "listing", "renew", "update"]

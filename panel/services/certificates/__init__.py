"""Certificates: which actions there are, and when they are allowed. Callers have been authorized."""

from panel.services.certificates.actions import create, delete, update
from panel.services.certificates.orders import find_challenge_answer, renew
from panel.services.certificates.read import find_latest_order, get, listing, select_with_problems

__all__ = [
    "create",
    "delete",
    "find_challenge_answer",
    "find_latest_order",
    "get",
    "listing",
    "renew",
    "select_with_problems",
    "update",
]

"""Instances: the list, making one, and everything about one."""

from flask import Blueprint

bp = Blueprint("instances", __name__, url_prefix="/instances")

from panel.user.instances import (  # noqa: E402, F401  (they add their pages to bp)
    actions,
    addresses,
    bulk,
    disks,
    guest,
    media,
    metrics,
    new,
    plans,
    reinstall,
    rows,
    show,
    snapshots,
    switches,
    tags,
)

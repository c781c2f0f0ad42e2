"""The pages of one instance. Each view is written once and stands twice: for its owner and for operators."""

from panel.instance_pages import (  # noqa: F401  (they write the rows that `stand` reads)
    addresses,
    deploy,
    disks,
    docker_deployments,
    guest,
    media,
    metrics,
    plans,
    reinstall,
    settings,
    show,
    snapshots,
    switches,
    tags,
)
from panel.instance_pages.sides import stand

__all__ = ["stand"]

"""The pages of one instance, each written once for the owner and for operators."""

from panel.pages.shared.area import register
from panel.pages.shared.instances import (  # noqa: F401  (they write the rows that `stand` reads)
    addresses,
    deploy,
    disks,
    docker_deployments,
    feature_switches,
    guest,
    media,
    metrics,
    plans,
    reinstall,
    row_actions,
    settings,
    show,
    snapshots,
    tags,
)

__all__ = ["register"]

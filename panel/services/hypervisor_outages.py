"""The history of each hypervisor: when it did not answer, and for how long."""

from datetime import timedelta

from sqlalchemy import Select, delete, select, update

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, HypervisorOutage

RETENTION = timedelta(days=90)
"""How long an outage is listed after its end."""


def listing(hypervisor: Hypervisor) -> Select[HypervisorOutage]:
    """Select the outages of a hypervisor, newest first."""
    query = select(HypervisorOutage).where(HypervisorOutage.hypervisor_id == hypervisor.id)
    return query.order_by(HypervisorOutage.id.desc())


def begin(hypervisor: Hypervisor, error: str) -> None:
    """Record that the hypervisor does not answer, unless this is recorded already."""
    query = listing(hypervisor).where(HypervisorOutage.ended_at.is_(None)).limit(1)
    if session.scalar(query) is None:
        session.add(HypervisorOutage(hypervisor_id=hypervisor.id, began_at=clock.now(), detail=error))


def end(hypervisor: Hypervisor) -> None:
    """Record that the hypervisor answers again."""
    outages = update(HypervisorOutage).where(
        HypervisorOutage.hypervisor_id == hypervisor.id, HypervisorOutage.ended_at.is_(None)
    )
    session.execute(outages.values(ended_at=clock.now()))


def purge_expired() -> None:
    session.execute(delete(HypervisorOutage).where(HypervisorOutage.ended_at < clock.now() - RETENTION))

"""Store and read the traffic of each subnet over time: that of the interfaces with an address in it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import case, func, insert

from panel.core.db import session
from panel.models import Subnet, SubnetMetric
from panel.models.metrics import SUBNET_SLOTS_BY_STEP
from panel.services.metrics.read import TIME_RANGES, load_series, make_time
from panel.services.metrics.ring_buffer import INSERT_BY_DIALECT, compute_slot

BYTES_PER_MEGABIT = 125_000
SUBNET_TIME_RANGES = {name: TIME_RANGES[name] for name in ("12h", "1d", "1w")}

columns = SubnetMetric.__table__.c
COUNTED_NAMES = ("received", "sent", "seconds")


def add_traffic(hypervisor_id: str, traffic: Mapping[str, tuple[int, int]], seconds: float, at: float) -> None:
    """Add what the guests of a hypervisor received and sent by each subnet in that many seconds. One statement.

    Bytes and seconds are summed up, so a measurement that two processes add changes no rate.
    """
    rows = [
        {
            "subnet_id": subnet_id,
            "hypervisor_id": hypervisor_id,
            **compute_slot(step, at, SUBNET_SLOTS_BY_STEP),
            "received": received,
            "sent": sent,
            "seconds": seconds,
        }
        for subnet_id, (received, sent) in sorted(traffic.items())
        for step in SUBNET_SLOTS_BY_STEP
    ]
    if not rows:
        return
    table = SubnetMetric.__table__
    statement: Any = INSERT_BY_DIALECT.get(session.get_bind().dialect.name, insert)(table)
    new = statement.excluded
    sums = {name: case((columns.at == new.at, columns[name] + new[name]), else_=new[name]) for name in COUNTED_NAMES}
    statement = statement.on_conflict_do_update(index_elements=list(table.primary_key), set_={"at": new.at, **sums})
    session.connection().execute(statement, rows)


def get_subnet_series(subnet: Subnet, time_range: str) -> dict[str, Any]:
    """Return the traffic of a subnet in Mbit/s, oldest first: the sum over the hypervisors. One query."""
    rate_columns = [
        (func.sum(columns[name] / columns.seconds) / BYTES_PER_MEGABIT).label(label)
        for name, label in (("received", "network_receive_mbps"), ("sent", "network_transmit_mbps"))
    ]
    is_counted = (columns.subnet_id == subnet.id) & (columns.seconds > 0)
    series = load_series([columns.at, *rate_columns], is_counted, time_range, SUBNET_TIME_RANGES, group_by=columns.at)
    points = [
        row._asdict()
        | {
            "at": make_time(row.at),
            "network_receive_mbps_max": row.network_receive_mbps,
            "network_transmit_mbps_max": row.network_transmit_mbps,
        }
        for row in series["points"]
    ]
    return series | {"points": points}

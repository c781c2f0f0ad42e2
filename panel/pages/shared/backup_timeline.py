"""The timeline of a customer's backups: points on an axis of time, a row for each instance, and their next backups."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import log1p
from typing import Any

from panel.core import clock
from panel.core.db import session
from panel.models import InstanceBackup
from panel.pages.shared.area import has_permission, scope_account
from panel.schemas.instance_backups import BACKUP_TYPES
from panel.services import backup_policies, instance_backups

MAX_POINTS = 120
MAX_LANES = 8
MIN_SPAN = timedelta(days=1)
"""The least time before now that the axis shows."""
EVEN_TIME = timedelta(days=14)
"""Times much shorter than this are in proportion on the axis; longer ones are shown ever closer together."""
MARGIN_PERCENT = 3.0
TICK_AGES = tuple(timedelta(days=days) for days in (1, 2, 7, 14, 30, 90, 180, 365, 730, 1825, 3650))
MIN_TICK_DISTANCE_PERCENT = 24.0


@dataclass
class TimelinePoint:
    backup: InstanceBackup
    kind: str
    position: float = 0.0
    """Percent of the width."""

    @property
    def is_usable(self) -> bool:
        """Whether it can be restored."""
        return self.kind in BACKUP_TYPES


@dataclass
class TimelineLane:
    """The backups of one instance, newest first."""

    name: str
    points: list[TimelinePoint] = field(default_factory=list)
    next_run_at: datetime | None = None
    next_position: float | None = None

    @property
    def drawn_points(self) -> list[TimelinePoint]:
        """The points in the order in which they are drawn: nothing may cover those that stand out."""
        return sorted(reversed(self.points), key=lambda point: (not point.is_usable, point.backup.protected))


@dataclass
class Timeline:
    lanes: list[TimelineLane]
    ticks: list[tuple[datetime, float]]
    """Moments with a label, and their positions. The first is now, the second the beginning if there is room."""
    now_position: float
    is_compressed: bool
    """Whether old times are shown closer together than new ones, by so much that it is seen."""
    is_shortened: bool
    """Whether there are more backups than it shows."""

    @property
    def kinds(self) -> set[str]:
        return {point.kind for lane in self.lanes for point in lane.points}

    @property
    def has_protected(self) -> bool:
        return any(point.backup.protected for lane in self.lanes for point in lane.points)

    @property
    def has_next_runs(self) -> bool:
        return any(lane.next_run_at for lane in self.lanes)


def build_timeline(**filters: Any) -> Timeline | None:
    """Return the timeline of the newest backups that fit the filters of the list, or None without any."""
    query = instance_backups.select_timeline(scope_account(), **filters)
    backups = session.scalars(query.limit(MAX_POINTS + 1)).all()
    if not backups:
        return None
    lanes: dict[str, TimelineLane] = {}
    for backup in backups[:MAX_POINTS]:
        lane = lanes.setdefault(backup.instance_id, TimelineLane(backup.instance_name))
        lane.points.append(TimelinePoint(backup, get_kind(backup)))
    shown = list(lanes.values())[:MAX_LANES]
    add_next_runs(shown)
    is_shortened = len(backups) > MAX_POINTS or len(lanes) > MAX_LANES
    return place_points(shown, clock.now(), is_shortened=is_shortened)


def get_kind(backup: InstanceBackup) -> str:
    """Return the kind of a point: its type if it can be restored, else why not."""
    if backup.is_claimed:
        return "deleting"
    if backup.status != "complete":
        return backup.status
    return "damaged" if backup.damaged else backup.backup_type


def add_next_runs(lanes: list[TimelineLane]) -> None:
    """Add when the policy or a job backs each instance up next, as far as the person may see that."""
    instances = {lane.points[0].backup.instance_id: lane.points[0].backup.instance for lane in lanes}
    jobs = backup_policies.map_jobs(row for row in instances.values() if row is not None)
    policies = backup_policies.map_policies(row_id for row_id, row in instances.items() if row is not None)
    for lane in lanes:
        instance_id = lane.points[0].backup.instance_id
        runs = [job.planned_run_at for job in jobs.get(instance_id, [])]
        policy = policies.get(instance_id)
        if policy and (policy.account_id is None or has_permission("backup_policies.view")):
            runs.append(policy.planned_run_at)
        lane.next_run_at = min((run for run in runs if run), default=None)


def place_points(lanes: list[TimelineLane], now: datetime, *, is_shortened: bool) -> Timeline:
    """Compute the positions of everything between the oldest backup and the last of the next ones."""
    first = min(now - MIN_SPAN, *(point.backup.created_at for lane in lanes for point in lane.points))
    last = max(now, *(lane.next_run_at or now for lane in lanes))
    begin, end = scale_distance(first - now), scale_distance(last - now)

    def find_position(moment: datetime) -> float:
        share = (scale_distance(moment - now) - begin) / (end - begin)
        return round(MARGIN_PERCENT + share * (100 - 2 * MARGIN_PERCENT), 2)

    for lane in lanes:
        for point in lane.points:
            point.position = find_position(point.backup.created_at)
        lane.next_position = find_position(lane.next_run_at) if lane.next_run_at else None
    ticks: list[tuple[datetime, float]] = []
    for moment in [now, first, *(now - age for age in TICK_AGES)]:
        position = find_position(moment)
        if moment >= first and all(abs(position - other) >= MIN_TICK_DISTANCE_PERCENT for _, other in ticks):
            ticks.append((moment, position))
    return Timeline(lanes, ticks, find_position(now), first < now - EVEN_TIME, is_shortened)


def scale_distance(distance: timedelta) -> float:
    """Return the distance from now on the axis. Old backups are few, so their part of it is shorter."""
    length = log1p(abs(distance) / EVEN_TIME)
    return -length if distance < timedelta() else length

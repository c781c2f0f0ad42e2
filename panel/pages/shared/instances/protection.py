"""What the overview of an instance says about its protection, its traffic and its cost in this month."""

from decimal import Decimal

from sqlalchemy import func, select

from panel.core import clock
from panel.core.db import session
from panel.models import UsageMonth
from panel.pages.shared.area import has_permission, is_operator_area
from panel.services import backup_coverage, backup_policies, firewall, usage
from panel.services.instances.traffic import count_used_bytes


def build_context(instance):
    """Return the context of the overview. `group_count` is None without the permission to see security groups,
    `month_charge` without the permission to see bills."""
    is_group_visible, is_bill_visible = has_permission("security_groups.view"), has_permission("billing.view")
    groups = select(func.count()).select_from(firewall.select_groups(instance).order_by(None).subquery())
    policy = backup_policies.find_attached(instance)
    return {
        "newest_backup": backup_coverage.map_newest_backups([instance.id]).get(instance.id),
        "is_backed_up": policy is not None or bool(backup_policies.map_jobs([instance])[instance.id]),
        "group_count": session.scalars(groups).one() if is_group_visible else None,
        "used_bytes": count_used_bytes(instance),
        "month_charge": get_month_charge(instance) if is_bill_visible and not is_operator_area() else None,
    }


def get_month_charge(instance) -> Decimal:
    """Return what the instance has cost its owner since the month began."""
    query = select(func.sum(UsageMonth.charge)).where(
        UsageMonth.resource_id == instance.id,
        UsageMonth.month == usage.make_month_key(clock.now()),
        UsageMonth.account_id == instance.account_id,
    )
    return (session.scalar(query) or Decimal(0)).quantize(usage.CENT_QUANTUM)

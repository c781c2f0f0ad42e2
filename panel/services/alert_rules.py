"""Customers' alert rules."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Select, and_, func, or_, select
from sqlalchemy import delete as delete_rows
from sqlalchemy import update as update_rows
from sqlalchemy.orm import selectinload

from panel.core import clock
from panel.core.db import lock_row, session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, AlertEvent, AlertNotification, AlertRule, AlertState, Instance, NotificationChannel
from panel.models.alert_rules import IS_FIRING, is_any_state
from panel.services import notification_channels, settings
from panel.services.access import Access
from panel.services.crud import update_fields
from panel.services.search_kinds import customer_name_search, select_by_name

MAX_RESOURCE_OPTIONS = 500
"""Instances that the form offers. The API accepts all."""

CONDITION_FIELDS = {"resource_type", "resource_id", "metric", "operator", "threshold", "duration", "enabled"}
"""A change of one of these makes the states of the rule begin anew."""

STATUS_CONDITIONS = {
    "firing": AlertRule.status == "firing",
    "no_data": AlertRule.no_data,
    "ok": AlertRule.enabled & (AlertRule.status == "ok") & ~AlertRule.no_data,
    "off": ~AlertRule.enabled,
}
"""By the word of a filter: the condition of rules in this state."""


def listing(account: Access | Account | None) -> Select[AlertRule]:
    """Select the rules that the person may see by name; without an account all, newest first."""
    query = select(AlertRule).options(selectinload(AlertRule.channels))
    if account is None:
        return query.order_by(AlertRule.id.desc())
    return query.where(account.visible_rows(AlertRule)).order_by(AlertRule.name, AlertRule.id)


def search_all(*, search: str = "", status: str = "") -> Select[AlertRule]:
    """Select rules of all customers. `search` looks at names, customers' addresses and the watched instance."""
    query = listing(None)
    if status in STATUS_CONDITIONS:
        query = query.where(STATUS_CONDITIONS[status])
    if not search:
        return query
    texts = (column.icontains(search, autoescape=True) for column in (AlertRule.name, Account.email))
    is_instance = (AlertRule.resource_id == search, Instance.display_name.icontains(search, autoescape=True))
    query = query.join(Account, Account.id == AlertRule.account_id)
    return query.outerjoin(Instance, Instance.id == AlertRule.resource_id).where(or_(*texts, *is_instance))


def select_firing(account: Access | Account) -> Select[AlertRule]:
    """Select rules with alerts that nobody has acknowledged."""
    is_open = is_any_state(IS_FIRING, AlertState.acknowledged_at.is_(None))
    return select(AlertRule).where(account.visible_rows(AlertRule), is_open)


def get(alert_rule_id: str, account: Access | Account | None) -> AlertRule:
    query = listing(account).where(AlertRule.id == alert_rule_id)
    alert_rule = session.scalar(query.execution_options(populate_existing=True))
    if alert_rule is None:
        raise NotFound(message("No such alert rule."))
    return alert_rule


def create(account: Access | Account, *, channel_ids: list[Any] | None = None, **values: Any) -> AlertRule:
    values["resource_id"] = get_own_resource_id(account, values.get("resource_id"))
    channels = notification_channels.get_all(channel_ids or [], account)
    lock_row(Account, account.id)  # serializes the count
    count = select(func.count()).where(AlertRule.account_id == account.id)
    maximum = settings.get().max_alert_rules
    if session.scalars(count).one() >= maximum:
        raise Invalid(message("An account has at most {maximum} alert rules.", maximum=maximum))
    alert_rule = AlertRule(account_id=account.id, channels=channels, **values)
    session.add(alert_rule)
    session.flush()
    session.refresh(alert_rule)
    return alert_rule


def update(alert_rule: AlertRule, account: Access | Account, **changes: Any) -> AlertRule:
    """Change the given fields. `channel_ids` replaces the channels."""
    if "resource_id" in changes:
        changes["resource_id"] = get_own_resource_id(account, changes["resource_id"])
    if "channel_ids" in changes:
        changes["channels"] = notification_channels.get_all(changes.pop("channel_ids"), account)
    is_new_condition = any(
        name in CONDITION_FIELDS and value != getattr(alert_rule, name) for name, value in changes.items()
    )
    update_fields(alert_rule, changes)
    if is_new_condition:
        session.execute(delete_rows(AlertState).where(AlertState.rule_id == alert_rule.id))
    session.refresh(alert_rule)
    return alert_rule


def get_own_resource_id(account: Access | Account, resource_id: Any) -> str | None:
    """Return the id of an instance that the person may see. Members with chosen resources must name one."""
    if resource_id is None:
        if getattr(account, "reach", "all") != "all":
            sentence = message("Choose an instance: you do not have access to all of them.")
            raise Invalid(sentence, resource_id=sentence)
        return None
    query = select(Instance.id).where(account.visible_rows(Instance), Instance.id == str(resource_id))
    if session.scalar(query) is None:
        sentence = message("No such instance.")
        raise Invalid(sentence, resource_id=sentence)
    return str(resource_id)


def reset_suspended(account: Account) -> None:
    """Make the rules of an account that is suspended begin anew afterwards, and end the messages that still wait."""
    own_rules = select(AlertRule.id).where(AlertRule.account_id == account.id)
    session.execute(delete_rows(AlertState).where(AlertState.rule_id.in_(own_rules)))
    own_channels = select(NotificationChannel.id).where(NotificationChannel.account_id == account.id)
    waiting = update_rows(AlertNotification).where(
        AlertNotification.channel_id.in_(own_channels), AlertNotification.status == "pending"
    )
    error = message("The account was suspended.")
    session.execute(waiting.values(status="failed", error=error).execution_options(synchronize_session=False))


def delete(alert_rule: AlertRule) -> None:
    session.delete(alert_rule)
    session.flush()


def acknowledge(alert_rule: AlertRule, actor: str) -> None:
    """Stop the reminders of everything that fires now. Raise Conflict when nothing does."""
    now = clock.now()
    unacknowledged = (
        AlertState.rule_id == alert_rule.id,
        AlertState.status == "firing",
        AlertState.acknowledged_at.is_(None),
    )
    query = select(AlertState, Instance.display_name).join(Instance, Instance.id == AlertState.resource_id)
    rows = session.execute(query.where(*unacknowledged)).all()
    if not rows and alert_rule.status != "firing":
        raise Conflict(message("The alert is not firing."), reason="not_firing")
    for state, name in rows:
        session.add(
            AlertEvent(
                rule_id=alert_rule.id,
                resource_id=state.resource_id,
                resource_name=name,
                kind="acknowledged",
                value=state.value,
                actor=actor,
            )
        )
    session.execute(update_rows(AlertState).where(*unacknowledged).values(acknowledged_at=now))
    session.flush()
    session.refresh(alert_rule)


def select_history(alert_rule: AlertRule) -> Select[AlertEvent]:
    """Select what happened, newest first."""
    query = select(AlertEvent).where(AlertEvent.rule_id == alert_rule.id)
    return query.order_by(AlertEvent.id.desc())


def select_states(alert_rule: AlertRule) -> Select[AlertState, str]:
    """Select the resources that fire or have no values, with their names."""
    query = select(AlertState, Instance.display_name).join(Instance, Instance.id == AlertState.resource_id)
    return query.where(AlertState.rule_id == alert_rule.id).order_by(AlertState.status, Instance.display_name)


def map_resource_names(rules: Iterable[AlertRule]) -> dict[str, str]:
    """Return the names of the instances that the rules watch, by id, without those that were transferred."""
    ids = [rule.id for rule in rules if rule.resource_id]
    if not ids:
        return {}
    is_watched = and_(AlertRule.resource_id == Instance.id, AlertRule.account_id == Instance.account_id)
    query = select(Instance.id, Instance.display_name).join(AlertRule, is_watched)
    return dict(session.execute(query.where(AlertRule.id.in_(ids)).distinct()).all())


def list_resource_options(account: Access | Account) -> list[tuple[str, str]]:
    """Return id and name of the instances that can be chosen."""
    query = select(Instance.id, Instance.display_name).where(account.visible_rows(Instance))
    rows = session.execute(query.order_by(Instance.display_name, Instance.id).limit(MAX_RESOURCE_OPTIONS))
    return [(row.id, row.display_name) for row in rows]


@customer_name_search("alert_rule", "alert rules", permission="monitoring.view", position=42)
def select_own_by_name(access: Access, search: str) -> Select[str, str, str | None]:
    query = select_by_name(AlertRule, AlertRule.name, AlertRule.metric, search)
    return query.where(access.visible_rows(AlertRule))

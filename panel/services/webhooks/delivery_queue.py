"""The rules of delivery: which subscriptions are served, how often attempts are made, and what follows from one.

A dispatcher leases a subscription, so only one at a time serves it and its events stay in order. What is not recorded
before the lease ends is repeated by another dispatcher: delivery is at least once.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    SQLColumnExpression,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.orm import Bundle

from panel.core import clock, jobs
from panel.core.db import on_commit, session
from panel.core.messages import to_stored
from panel.models import Event, WebhookDelivery, WebhookSubscription
from panel.models.webhooks import OPEN_DELIVERY_SQL
from panel.services.webhooks import samples

RETRY_DELAYS = [timedelta(seconds=seconds) for seconds in (10, 60, 300, 900)]
"""Delays before the attempts 2 to 5. There is no sixth."""

MAX_CONSECUTIVE_FAILURES = 20
"""A subscription is disabled after so many failed deliveries in a row."""

LEASE_DURATION = timedelta(seconds=60)
"""How long a lease lasts unless it is renewed. Longer than any attempt."""

FAST_RESPONSE_MILLISECONDS = 2000
"""Receivers that take longer are served by the threads for slow receivers."""

TURN_PAUSE = timedelta(seconds=1)
"""Pause between two delivery runs of a receiver that fails."""

MAX_RUNS_PER_HOST = 4
"""Maximum number of subscriptions of one receiver that a worker process serves at once; stalled runs do not count."""

ACCOUNT_SHARE = 4
"""An account uses at most one in `ACCOUNT_SHARE` of the free threads for receivers that are slow or new."""

MAX_REMEMBERED_ATTEMPTS = 10
"""Maximum number of attempts stored in a delivery. More than five happen when it was sent again by hand."""

WAITING_CONDITION = text(f"webhook_deliveries.{OPEN_DELIVERY_SQL}")

EVENT_COLUMNS: Bundle[Any] = Bundle(
    "event",
    Event.id,
    Event.kind,
    Event.created_at,
    Event.data,
    Event.resource_type,
    Event.snapshot,
    Event.severity,
    Event.message,
)
DELIVERY_COLUMNS: Bundle[Any] = Bundle(
    "delivery",
    WebhookDelivery.id,
    WebhookDelivery.account_id,
    WebhookDelivery.event_id,
    WebhookDelivery.event_kind,
    WebhookDelivery.attempts,
    WebhookDelivery.due_at,
    WebhookDelivery.tries,
    WebhookDelivery.created_at,
    WebhookDelivery.test,
)


class SubscriptionRun(Protocol):
    """A run of a leased subscription in this process."""

    host: str
    account_id: str
    is_fast: bool

    @property
    def is_stalled(self) -> bool:
        """Return whether its receiver keeps it waiting."""


class AttemptOutcome(NamedTuple):
    """The result of one attempt. It failed if `error`, a sentence, is set."""

    delivery: Row
    id: str
    at: datetime
    duration_ms: int
    code: int | None
    error: str | None
    body: str | None

    @property
    def is_delivered(self) -> bool:
        return self.error is None

    @property
    def is_given_up(self) -> bool:
        """Return whether this was the last attempt and failed; a test has one attempt."""
        return not self.is_delivered and (self.delivery.test or self.delivery.attempts >= len(RETRY_DELAYS))

    @property
    def status(self) -> str:
        return "delivered" if self.is_delivered else "failed_permanent" if self.is_given_up else "pending_retry"


def notify_dispatcher(_: object = None) -> None:
    """Notify a dispatcher after the commit that deliveries may be due."""
    on_commit(lambda: jobs.enqueue_call("worker.webhooks.wake_dispatcher"))


def claim_subscriptions(
    holder: str, *, is_fast: bool, maximum: int, running: Sequence[SubscriptionRun] = ()
) -> list[Row[str, str, str]]:
    """Lease up to `maximum` subscriptions with due deliveries and return their rows: id, account_id, host.

    Every account gets a first one before any gets a second, and those that wait longest come first. `running` are the
    runs of this process. `maximum` is the number of free threads.
    """
    now = clock.now()
    hosts = Counter(run.host for run in running if not run.is_stalled)
    accounts = Counter(run.account_id for run in running if run.is_stalled or not run.is_fast)
    claimed_rows: list[Row[str, str, str]] = []
    served = (
        []
        if is_fast
        else [account_id for account_id, count in accounts.items() if count >= max(1, maximum // ACCOUNT_SHARE)]
    )
    for row in session.execute(select_candidates(is_fast, hosts, served, maximum, now)):
        share = max(1, (maximum - len(claimed_rows)) // ACCOUNT_SHARE)
        in_share = is_fast or accounts[row.account_id] < share
        if in_share and len(claimed_rows) < maximum and hosts[row.host] < MAX_RUNS_PER_HOST:
            hosts[row.host] += 1
            accounts[row.account_id] += 1
            claimed_rows.append(row)
    return lease_subscriptions(claimed_rows, holder, now) if claimed_rows else []


def select_candidates(
    is_fast: bool, hosts: Counter[str], served: list[str], maximum: int, now: datetime
) -> Select[str, str, str]:
    """Select the subscriptions that may be served, of each account in turn, except the accounts in `served`."""
    order = (WebhookSubscription.leased_until.nulls_first(), WebhookSubscription.id)
    position = func.row_number().over(partition_by=WebhookSubscription.account_id, order_by=order)
    busy_hosts = [host for host, count in hosts.items() if count >= MAX_RUNS_PER_HOST]
    query = select(WebhookSubscription.id, WebhookSubscription.account_id, WebhookSubscription.host).where(
        WebhookSubscription.is_fast.is_(is_fast),
        is_free(now),
        WebhookSubscription.host.not_in(busy_hosts),
        WebhookSubscription.account_id.not_in(served),
        exists().where(WebhookDelivery.subscription_id == WebhookSubscription.id, is_due(now)),
    )
    return query.order_by(position, *order).limit(maximum * ACCOUNT_SHARE)


def is_free(now: datetime) -> ColumnElement[bool]:
    return or_(WebhookSubscription.leased_by.is_(None), WebhookSubscription.leased_until <= now)


def is_due(now: datetime) -> ColumnElement[bool]:
    return and_(WAITING_CONDITION, WebhookDelivery.due_at <= now)


def lease_subscriptions(rows: list[Row[str, str, str]], holder: str, now: datetime) -> list[Row[str, str, str]]:
    """Lease those that nobody else leases at this moment, and return their rows."""
    query = select(WebhookSubscription.id).where(WebhookSubscription.id.in_([row.id for row in rows]), is_free(now))
    ids = set(session.scalars(query.order_by(WebhookSubscription.id).with_for_update(skip_locked=True, key_share=True)))
    session.execute(
        update(WebhookSubscription)
        .where(WebhookSubscription.id.in_(ids))
        .values(leased_by=holder, leased_until=now + LEASE_DURATION, updated_at=WebhookSubscription.updated_at)
        .execution_options(synchronize_session=False)
    )
    return [row for row in rows if row.id in ids]


def renew_leases(holders: Sequence[str]) -> None:
    """Renew the unexpired leases of these holders."""
    session.execute(
        update(WebhookSubscription)
        .where(WebhookSubscription.leased_by.in_(holders), WebhookSubscription.leased_until > clock.now())
        .values(leased_until=clock.now() + LEASE_DURATION, updated_at=WebhookSubscription.updated_at)
        .execution_options(synchronize_session=False)
    )


def release(subscription_id: str, holder: str) -> None:
    """End the lease: any dispatcher may serve the subscription at once."""
    end_lease(subscription_id, holder, leased_by=None, leased_until=clock.now())


def back_off(subscription_id: str, holder: str) -> None:
    """Shorten the lease to `TURN_PAUSE`: after it any dispatcher may serve the subscription."""
    end_lease(subscription_id, holder, leased_until=clock.now() + TURN_PAUSE)


def end_lease(subscription_id: str, holder: str, **values: Any) -> None:
    query = update(WebhookSubscription).where(
        WebhookSubscription.id == subscription_id, WebhookSubscription.leased_by == holder
    )
    statement = query.values(**values, updated_at=WebhookSubscription.updated_at)
    session.execute(statement.execution_options(synchronize_session=False))


def load_leased(subscription_id: str, holder: str) -> Row[str, str, str] | None:
    """Return the current URL and secret; None if the subscription was deleted or the lease is lost."""
    columns = WebhookSubscription.id, WebhookSubscription.url, WebhookSubscription.secret
    query = select(*columns).where(WebhookSubscription.id == subscription_id, WebhookSubscription.leased_by == holder)
    return session.execute(query).one_or_none()


def load_batch(subscription_id: str, maximum: int) -> list[tuple[Row, Row | Event]]:
    """Return due deliveries with their events, oldest event first, retries included."""
    query = select(DELIVERY_COLUMNS, EVENT_COLUMNS).outerjoin_from(WebhookDelivery, Event)
    due = query.where(WebhookDelivery.subscription_id == subscription_id, is_due(clock.now()))
    rows = session.execute(due.order_by(WebhookDelivery.id).limit(maximum))
    return [(delivery, event if delivery.event_id else samples.make_sample_event(delivery)) for delivery, event in rows]


def record_outcomes(subscription_id: str, outcomes: Sequence[AttemptOutcome]) -> None:
    """Write the outcomes of a subscription's attempts, in their order.

    The subscription's row is locked first, as in its deletion, so that the two cannot deadlock.
    """
    session.execute(
        update(WebhookSubscription)
        .where(WebhookSubscription.id == subscription_id)
        .values(**count_outcomes(outcomes), updated_at=WebhookSubscription.updated_at)
        .execution_options(synchronize_session=False)
    )
    session.connection().execute(UPDATE_IF_UNCHANGED, [make_delivery_row(outcome) for outcome in outcomes])


DELIVERY_TABLE = WebhookDelivery.__table__
UPDATE_IF_UNCHANGED = DELIVERY_TABLE.update().where(
    DELIVERY_TABLE.c.id == bindparam("which"), DELIVERY_TABLE.c.attempts == bindparam("before")
)
"""Updates nothing if the row was changed since it was read, because somebody sent the delivery again."""


def make_delivery_row(outcome: AttemptOutcome) -> dict[str, Any]:
    """Return the delivery's values after an attempt."""
    row, attempt = (
        outcome.delivery,
        outcome._asdict()
        | {
            "at": outcome.at.isoformat(),
            "error": to_stored(outcome.error),
        },
    )
    del attempt["delivery"]
    is_retried = outcome.status == "pending_retry"
    return {
        "which": row.id,
        "before": row.attempts,
        "status": outcome.status,
        "attempts": row.attempts + 1,
        "due_at": clock.now() + RETRY_DELAYS[row.attempts] if is_retried else row.due_at,
        "response_code": outcome.code,
        "duration_ms": outcome.duration_ms,
        "error": outcome.error,
        "tries": [*row.tries, attempt][-MAX_REMEMBERED_ATTEMPTS:],
    }


def count_outcomes(outcomes: Sequence[AttemptOutcome]) -> dict[str, Any]:
    """Return the subscription's values after these attempts.

    A delivery that was given up increments the failures, a successful one resets them, and too many disable the
    subscription. Tests do not count.
    """
    is_fast = outcomes[-1].is_delivered and outcomes[-1].duration_ms <= FAST_RESPONSE_MILLISECONDS
    outcomes = [outcome for outcome in outcomes if not outcome.delivery.test]
    if not outcomes:
        return {"is_fast": is_fast}
    failures: SQLColumnExpression[int] = WebhookSubscription.consecutive_failures
    for outcome in outcomes:
        if outcome.is_delivered:
            failures = literal(0)
        elif outcome.is_given_up:
            failures = failures + 1
    last = outcomes[-1]
    values: dict[str, Any] = {
        "consecutive_failures": failures,
        "last_delivery_status": last.status,
        "is_fast": is_fast,
    }
    if last.is_given_up:
        too_many = and_(WebhookSubscription.enabled, failures >= MAX_CONSECUTIVE_FAILURES)
        values["disabled_at"] = case((too_many, clock.now()), else_=WebhookSubscription.disabled_at)
        values["enabled"] = case((too_many, False), else_=WebhookSubscription.enabled)
    return values

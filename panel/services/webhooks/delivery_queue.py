"""The rules of sending: who is served by whom, how often it is tried, and what follows from an attempt (3, 6.2, 8).

A sender leases a subscription, so one at a time serves it and the order of its events is kept. What it does not write
down before its lease ends is done again by another one: at least once, never lost.
"""

from collections import Counter
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Row, and_, bindparam, case, exists, func, or_, select, text, update
from sqlalchemy.orm import Bundle

from panel.core import clock, jobs
from panel.core.db import on_commit, session
from panel.models import Event, WebhookDelivery, WebhookSubscription
from panel.models.webhooks import UNDER_WAY_SQL
from panel.services.webhooks import samples

RETRY_DELAYS = [timedelta(seconds=seconds) for seconds in (10, 60, 300, 900)]
"""Before the attempts 2 to 5. There is no sixth."""

MAX_CONSECUTIVE_FAILURES = 20
"""Deliveries given up in a row that switch a subscription off."""

LEASE_DURATION = timedelta(seconds=60)
"""How long a sender that says nothing more keeps a subscription. Longer than any attempt."""

FAST_RESPONSE_MILLISECONDS = 2000
"""Milliseconds. A receiver that took longer is served by the threads of the slow ones."""

TURN_PAUSE = timedelta(seconds=1)
"""Between two turns of a receiver that does not take anything."""

MAX_RUNS_PER_HOST = 4
"""Subscriptions of one receiver that a worker process serves at once, without those whose receiver stalls."""

ACCOUNT_SHARE = 4
"""An account is served by at most one in so many of the threads that are free, for receivers that are slow or new."""

MAX_REMEMBERED_ATTEMPTS = 10
"""Attempts that a delivery remembers. There are more than five when it was sent again by hand."""

WAITING_CONDITION = text(f"webhook_deliveries.{UNDER_WAY_SQL}")

EVENT_COLUMNS = Bundle(
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
DELIVERY_COLUMNS = Bundle(
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


class AttemptOutcome(NamedTuple):
    """What became of one attempt. An `error` is a sentence and means that it failed."""

    delivery: Row
    id: str
    at: datetime
    duration_ms: int
    code: int | None
    error: str | None
    body: str | None

    @property
    def arrived(self):
        return self.error is None

    @property
    def is_given_up(self):
        """After the last attempt; a test has one."""
        return not self.arrived and (self.delivery.test or self.delivery.attempts >= len(RETRY_DELAYS))

    @property
    def status(self):
        return "delivered" if self.arrived else "failed_permanent" if self.is_given_up else "pending_retry"


def notify_dispatcher(_=None):
    """Asks a worker to look for what is due, once this has committed."""
    on_commit(lambda: jobs.enqueue_call("worker.webhooks.wake_dispatcher"))


def claim_subscriptions(holder, *, is_fast, maximum, running=()):
    """Lease up to `most` subscriptions with something due and return their rows: id, account_id, host.

    Every account gets its first one before any gets its second, and those that wait longest come first. `running` is
    what this process serves already. `most` is the number of free threads.
    """
    now = clock.now()
    hosts = Counter(run.host for run in running if not run.is_stalled)
    accounts = Counter(run.account_id for run in running if run.is_stalled or not run.quick)
    chosen = []
    served = [] if is_fast else [each for each, count in accounts.items() if count >= max(1, maximum // ACCOUNT_SHARE)]
    for row in session.execute(select_candidates(is_fast, hosts, served, maximum, now)):
        share = max(1, (maximum - len(chosen)) // ACCOUNT_SHARE)
        in_share = is_fast or accounts[row.account_id] < share
        if in_share and len(chosen) < maximum and hosts[row.host] < MAX_RUNS_PER_HOST:
            hosts[row.host] += 1
            accounts[row.account_id] += 1
            chosen.append(row)
    return lease_subscriptions(chosen, holder, now) if chosen else []


def select_candidates(is_fast, hosts, served, maximum, now):
    """Select the subscriptions that may be served, of each account in turn but those `served` enough."""
    turn = (WebhookSubscription.held_until.nulls_first(), WebhookSubscription.id)
    position = func.row_number().over(partition_by=WebhookSubscription.account_id, order_by=turn)
    full = [host for host, count in hosts.items() if count >= MAX_RUNS_PER_HOST]
    found = select(WebhookSubscription.id, WebhookSubscription.account_id, WebhookSubscription.host).where(
        WebhookSubscription.quick.is_(is_fast),
        is_free(now),
        WebhookSubscription.host.not_in(full),
        WebhookSubscription.account_id.not_in(served),
        exists().where(WebhookDelivery.subscription_id == WebhookSubscription.id, is_due(now)),
    )
    return found.order_by(position, *turn).limit(maximum * ACCOUNT_SHARE)


def is_free(now):
    return or_(WebhookSubscription.held_by.is_(None), WebhookSubscription.held_until <= now)


def is_due(now):
    return and_(WAITING_CONDITION, WebhookDelivery.due_at <= now)


def lease_subscriptions(rows, holder, now):
    """Lease those that nobody else leases at this moment, and return their rows."""
    mine = select(WebhookSubscription.id).where(WebhookSubscription.id.in_([row.id for row in rows]), is_free(now))
    ids = set(session.scalars(mine.order_by(WebhookSubscription.id).with_for_update(skip_locked=True, key_share=True)))
    session.execute(
        update(WebhookSubscription)
        .where(WebhookSubscription.id.in_(ids))
        .values(held_by=holder, held_until=now + LEASE_DURATION, updated_at=WebhookSubscription.updated_at)
        .execution_options(synchronize_session=False)
    )
    return [row for row in rows if row.id in ids]


def renew_leases(holders):
    """They are alive and still at it."""
    session.execute(
        update(WebhookSubscription)
        .where(WebhookSubscription.held_by.in_(holders), WebhookSubscription.held_until > clock.now())
        .values(held_until=clock.now() + LEASE_DURATION, updated_at=WebhookSubscription.updated_at)
        .execution_options(synchronize_session=False)
    )


def release(subscription_id, holder):
    """From now on anybody may serve it."""
    end_lease(subscription_id, holder, held_by=None, held_until=clock.now())


def back_off(subscription_id, holder):
    """After a moment anybody may serve it."""
    end_lease(subscription_id, holder, held_until=clock.now() + TURN_PAUSE)


def end_lease(subscription_id, holder, **values):
    mine = update(WebhookSubscription).where(
        WebhookSubscription.id == subscription_id, WebhookSubscription.held_by == holder
    )
    ended = mine.values(**values, updated_at=WebhookSubscription.updated_at)
    session.execute(ended.execution_options(synchronize_session=False))


def load_leased(subscription_id, holder):
    """Address and secret as they are at this moment; None when somebody deleted it or the lease is lost."""
    columns = WebhookSubscription.id, WebhookSubscription.url, WebhookSubscription.secret
    found = select(*columns).where(WebhookSubscription.id == subscription_id, WebhookSubscription.held_by == holder)
    return session.execute(found).one_or_none()


def load_batch(subscription_id, maximum):
    """What is due, each with its event, in the order in which it happened: what failed before goes first."""
    query = select(DELIVERY_COLUMNS, EVENT_COLUMNS).outerjoin_from(WebhookDelivery, Event)
    waiting = query.where(WebhookDelivery.subscription_id == subscription_id, is_due(clock.now()))
    rows = session.execute(waiting.order_by(WebhookDelivery.id).limit(maximum))
    return [(delivery, event if delivery.event_id else samples.make_sample_event(delivery)) for delivery, event in rows]


def record_outcomes(subscription_id, outcomes):
    """Writes what became of attempts of one subscription, in their order. Its row comes first, as when somebody deletes
    it with its deliveries: so neither waits for the other."""
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
"""Nothing is written to a row that was changed since it was read: somebody sends it anew."""


def make_delivery_row(outcome):
    """The delivery's row after an attempt."""
    row, tried = outcome.delivery, outcome._asdict() | {"at": outcome.at.isoformat()}
    del tried["delivery"]
    again = outcome.status == "pending_retry"
    return {
        "which": row.id,
        "before": row.attempts,
        "status": outcome.status,
        "attempts": row.attempts + 1,
        "due_at": clock.now() + RETRY_DELAYS[row.attempts] if again else row.due_at,
        "response_code": outcome.code,
        "duration_ms": outcome.duration_ms,
        "error": outcome.error,
        "tries": [*row.tries, tried][-MAX_REMEMBERED_ATTEMPTS:],
    }


def count_outcomes(outcomes):
    """What the attempts mean for their subscription. A delivery that was given up counts, one that arrives ends the
    count, and too many switch it off. Tests count for nothing."""
    quick = outcomes[-1].arrived and outcomes[-1].duration_ms <= FAST_RESPONSE_MILLISECONDS
    outcomes = [outcome for outcome in outcomes if not outcome.delivery.test]
    if not outcomes:
        return {"quick": quick}
    failures = WebhookSubscription.consecutive_failures
    for outcome in outcomes:
        if outcome.arrived:
            failures = 0
        elif outcome.is_given_up:
            failures = failures + 1
    last = outcomes[-1]
    values = {
        "consecutive_failures": failures,
        "last_delivery_status": last.status,
        "quick": quick,
    }
    if last.is_given_up:
        too_many = and_(WebhookSubscription.enabled, failures >= MAX_CONSECUTIVE_FAILURES)
        values["disabled_at"] = case((too_many, clock.now()), else_=WebhookSubscription.disabled_at)
        values["enabled"] = case((too_many, False), else_=WebhookSubscription.enabled)
    return values

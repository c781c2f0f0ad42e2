"""Metering: hours, monthly charges and ledger entries agree to the cent."""

import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from panel.core import clock
from panel.core.db import generate_id, session
from panel.models import Account, CreditLedgerEntry, Setting, UsageHour, UsageMonth
from panel.services import accounts, credits, usage
from panel.services import settings as platform_settings
from panel.services.usage import truncate_to_hour
from tests.support.isolated_app import isolated_installation
from tests.support.task_queue import queued_calls
from worker.engine import purge
from worker.engine.scheduler import Scheduler
from worker.tasks import usage as usage_tasks

START_TIME = datetime(2026, 1, 20, 22, 15, tzinfo=UTC)
ONE_HOUR = timedelta(hours=1)
customer_numbers = count()


@pytest.fixture
def clock_at_start(set_clock):
    """Set the clock to START_TIME."""
    set_clock(START_TIME)


@pytest.fixture
def customer(rolled_back_app):
    return accounts.create(email=f"customer-{next(customer_numbers)}@example.com")


def start_metering(account, price="7.30", billing_mode="cloud_service"):
    resource = SimpleNamespace(id=generate_id(), account_id=account.id)
    usage.start_metering("instance", resource, name="web", plan="S", price=Decimal(price), billing_mode=billing_mode)
    return resource


def load_months(account):
    return {row.month: (row.hours, row.charge) for row in session.execute(usage.select_months(account))}


def load_ledger_amounts(account):
    return [entry.amount for entry in session.scalars(credits.listing(account))]


def test_month_costs_at_most_the_plan_price(set_clock, clock_at_start, billing_enabled, customer):
    """At most 730 hours of a month are charged: January has 744, February 672."""
    set_clock(datetime(2025, 12, 31, 23, 0, tzinfo=UTC))
    start_metering(customer, "4.00")
    set_clock(datetime(2026, 3, 1, 0, 0, tzinfo=UTC))
    usage_tasks.meter_and_post()
    months = load_months(customer)
    assert months["2025-12"][0] == 1
    assert months["2026-01"] == (744, Decimal("4.000000"))
    assert months["2026-02"] == (672, Decimal("3.682192"))
    assert load_ledger_amounts(customer) == [Decimal("-3.68"), Decimal("-4.00"), Decimal("-0.01")]
    assert credits.get_balance(customer) == Decimal("-7.69")


def test_started_hours_are_charged_until_metering_stops(set_clock, clock_at_start, billing_enabled, customer):
    resource = start_metering(customer)
    set_clock(START_TIME + timedelta(minutes=50))  # 23:05
    usage.stop_metering(resource)
    set_clock(START_TIME + timedelta(days=2))
    usage_tasks.meter_and_post()
    hours = session.scalars(select(UsageHour.hour).where(UsageHour.resource_id == resource.id)).all()
    assert hours == [START_TIME.replace(minute=0), START_TIME.replace(minute=0) + ONE_HOUR]


def test_resumed_metering_has_no_gap(set_clock, clock_at_start, billing_enabled, customer):
    resource = start_metering(customer)
    usage.stop_metering(resource)
    set_clock(START_TIME + 5 * ONE_HOUR)
    usage_tasks.meter_and_post()
    assert load_months(customer)["2026-01"][0] == 1
    usage.resume_metering(resource.id)
    usage_tasks.meter_and_post()
    assert load_months(customer)["2026-01"][0] == 5


def test_repeated_metering_changes_nothing(set_clock, clock_at_start, billing_enabled, customer):
    start_metering(customer)
    set_clock(START_TIME + timedelta(days=3))
    for _ in range(3):
        usage_tasks.meter_and_post()
    assert load_months(customer)["2026-01"][0] == 72
    assert load_ledger_amounts(customer) == [Decimal("-0.72")]


def test_usage_entry_keeps_its_month_as_a_message(set_clock, clock_at_start, billing_enabled, customer):
    start_metering(customer)
    set_clock(START_TIME + timedelta(days=3))
    usage_tasks.meter_and_post()
    session.expire_all()
    [entry] = session.scalars(select(CreditLedgerEntry).where(CreditLedgerEntry.account_id == customer.id))
    assert entry.description == "Usage of January 2026"
    assert entry.description.template == "Usage of {month}"
    assert entry.description.parameters["month"].parameters["month"].template == "January"


def test_usage_is_posted_once_a_day(set_clock, clock_at_start, billing_enabled, customer):
    start_metering(customer, "73")
    for hours in range(1, 49):
        set_clock(START_TIME + hours * ONE_HOUR)
        usage_tasks.meter_and_post()
    assert len(load_ledger_amounts(customer)) == 3  # on the 20th, 21st and 22nd
    set_clock(START_TIME + timedelta(days=3))
    usage_tasks.meter_and_post()
    assert credits.get_balance(customer) == -Decimal("0.10") * 72


def test_price_change_applies_from_the_next_hour(set_clock, clock_at_start, billing_enabled, customer):
    resource = start_metering(customer, "730")
    set_clock(START_TIME + timedelta(minutes=10))
    usage.change_price(resource, plan="M", price=Decimal(1460))
    set_clock(START_TIME + timedelta(minutes=20))
    usage.change_price(resource, plan="L", price=Decimal(2190))
    set_clock(START_TIME + 3 * ONE_HOUR)
    usage_tasks.meter_and_post()
    charges = select(UsageHour.charge).where(UsageHour.resource_id == resource.id).order_by(UsageHour.hour)
    assert session.scalars(charges).all() == [1, 3, 3]
    assert session.scalar(select(UsageMonth.plan).where(UsageMonth.account_id == customer.id)) == "L"


def test_price_change_does_not_resume_ended_metering(clock_at_start, customer):
    resource = start_metering(customer, "730")
    usage.stop_metering(resource)
    assert usage.change_price(resource, plan="M", price=Decimal(1460)) is None
    assert usage.transfer(resource) is None
    assert usage.lock_latest(resource.id).ended_at is not None


@pytest.mark.parametrize("billing", ["unbilled", "external", "off"])
def test_unbilled_usage_is_recorded_without_charge(
    set_clock, clock_at_start, rolled_back_app, customer, request, billing
):
    if billing != "off":
        request.getfixturevalue("billing_enabled")
    customer.self_provisioning = billing == "unbilled"
    resource = start_metering(customer, billing_mode="external" if billing == "external" else "cloud_service")
    set_clock(START_TIME + timedelta(days=1))
    usage_tasks.meter_and_post()
    assert load_months(customer) == {"2026-01": (24, 0)}
    assert load_ledger_amounts(customer) == []
    mode = {"unbilled": "self_provisioned", "external": "external", "off": "cloud_service"}[billing]
    assert set(session.scalars(select(UsageHour.billing_mode).where(UsageHour.resource_id == resource.id))) == {mode}


def test_purge_deletes_old_hours_and_keeps_months(set_clock, clock_at_start, billing_enabled, customer):
    start_metering(customer)
    set_clock(START_TIME + 2 * ONE_HOUR)
    usage_tasks.meter_and_post()
    set_clock(START_TIME + timedelta(days=401))
    purge.purge_expired()
    assert session.scalar(select(func.count()).where(UsageHour.account_id == customer.id)) == 0
    assert load_months(customer)["2026-01"][0] == 2


MINUTES = st.integers(0, 70 * 24 * 60)
PRICES = st.decimals("0.01", "900", places=4)
lifecycles = st.lists(
    st.tuples(MINUTES, PRICES, st.lists(st.tuples(MINUTES, PRICES), max_size=3), st.none() | MINUTES),
    min_size=1,
    max_size=3,
)


@given(lifecycles=lifecycles, runs=st.lists(MINUTES, max_size=12))
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # shrinking an example would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_hours_charges_and_ledger_agree(set_clock, billing_enabled, rolled_back_app, lifecycles, runs):
    """Hours and charges equal those of a simple calculation, ledger entries equal the charge of each month to the cent,
    and the balance is the sum of the entries, for any resources, price changes and metering times."""
    customer = accounts.create(email=f"customer-{next(customer_numbers)}@example.com")
    resources, events = {}, []
    for number, (started, price, changes, ended) in enumerate(lifecycles):
        events.append((started, 0, number, ("start", price)))
        events += [(moment, 1, number, ("change", new)) for moment, new in changes if started < moment]
        events += [(ended, 2, number, ("end", None))] if ended is not None and ended > started else []
    events += [(moment, 3, None, ("meter", None)) for moment in runs]
    ended_at = {}
    history = {number: [] for number in range(len(lifecycles))}
    for moment, _, number, (kind, price) in sorted(events, key=lambda event: event[:2]):
        now = START_TIME + timedelta(minutes=moment)
        set_clock(now)
        if kind == "meter":
            usage_tasks.meter_and_post()
        elif number in ended_at:
            continue
        elif kind == "start":
            resources[number] = start_metering(customer, price)
            history[number].append((now, price))
        elif kind == "change":
            usage.change_price(resources[number], plan="M", price=price)
            history[number].append((now, price))
        else:
            usage.stop_metering(resources[number])
            ended_at[number] = now
    last = START_TIME + timedelta(days=72)
    set_clock(last)
    usage_tasks.meter_and_post()
    for resource in resources.values():
        usage.stop_metering(resource)
    set_clock(last + timedelta(days=1))
    usage_tasks.meter_and_post()
    months = load_months(customer)
    expected = {}
    for number, steps in history.items():
        for month, hours, charge in calculate_charges(steps, ended_at.get(number, last)):
            previous = expected.get(month, (0, Decimal(0)))
            expected[month] = previous[0] + hours, previous[1] + charge
    assert months == expected
    entries = session.scalars(credits.listing(customer)).all()
    for month, (_, charge) in months.items():
        booked = -sum((entry.amount for entry in entries if entry.month == month), Decimal(0))
        assert abs(booked - charge) <= Decimal("0.005")
        assert booked == booked.quantize(Decimal("0.01"))
    assert credits.get_balance(customer) == sum(entry.amount for entry in entries)
    charge_sum = select(func.sum(UsageHour.charge)).where(UsageHour.account_id == customer.id)
    assert session.scalar(charge_sum) == sum(charge for _, charge in months.values())


def calculate_charges(steps, ended):
    """Calculate (month, hours, charge) of one resource hour by hour, with the price at the start of the hour."""
    hour, sums = steps[0][0].replace(minute=0), {}
    while hour < ended:
        price = [price for since, price in steps if since <= max(hour, steps[0][0])][-1]
        month = f"{hour:%Y-%m}"
        number, charge = sums.get(month, (0, Decimal(0)))
        step = [(price * min(n, 730) / 730).quantize(Decimal("0.000001")) for n in (number, number + 1)]
        sums[month] = number + 1, charge + step[1] - step[0]
        hour += ONE_HOUR
    return [(month, *totals) for month, totals in sums.items()]


def test_instance_is_metered_until_destroy_request(set_clock, clock_at_start, billing_enabled, api_as, cast, run_tasks):
    """The row may exist longer, while its node is unreachable. This time is not charged."""
    instance = cast.instance()
    set_clock(START_TIME + 3 * ONE_HOUR)
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    set_clock(START_TIME + 9 * ONE_HOUR)
    run_tasks()
    usage_tasks.meter_and_post()
    row = session.scalar(select(UsageMonth).where(UsageMonth.resource_id == instance.id))
    assert (row.hours, row.plan, row.price, row.account_id) == (4, "S", 4, cast.owner.id)
    assert session.scalar(select(Account.balance).where(Account.id == cast.owner.id)) == Decimal("-0.02")
    assert (
        session.scalar(select(CreditLedgerEntry.actor).where(CreditLedgerEntry.account_id == cast.owner.id)) == "system"
    )


def test_concurrent_metering_counts_each_hour_once(tmp_path, monkeypatch):
    """With threads that commit: no hour is lost or counted twice, and each ledger entry is posted once."""
    start = truncate_to_hour(clock.now()) - 50 * ONE_HOUR
    with isolated_installation(tmp_path) as app:
        with app.app_context():
            session.add(Setting(name="billing_enabled", value=True))
            customers = [accounts.create(email=f"p{number}@example.com") for number in range(3)]
            monkeypatch.setattr(clock, "now", lambda: start)
            for customer in customers:
                for _ in range(3):
                    start_metering(customer, "73")
            session.commit()
            platform_settings.invalidate()
        monkeypatch.setattr(clock, "now", lambda: start + 50 * ONE_HOUR)
        failures = []

        def meter():
            with app.app_context():
                try:
                    usage_tasks.meter_and_post()
                except Exception as error:
                    failures.append(error)
                finally:
                    session.remove()

        threads = [threading.Thread(target=meter) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        with app.app_context():
            for customer in customers:
                assert sum(hours for hours, _ in load_months(customer).values()) == 150
                assert credits.get_balance(customer) == Decimal(-15) == sum(load_ledger_amounts(customer))
                assert len(load_ledger_amounts(customer)) == len(load_months(customer))
        platform_settings.invalidate()


def test_metering_resumes_after_failed_destroy(
    set_clock, clock_at_start, billing_enabled, api_as, cast, run_tasks, node
):
    instance = cast.instance()
    node.fault("delete", "refuse", 1)
    set_clock(START_TIME + 2 * ONE_HOUR)
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    set_clock(START_TIME + 6 * ONE_HOUR)
    usage_tasks.meter_and_post()
    row = select(UsageMonth.hours).where(UsageMonth.resource_id == instance.id)
    assert session.scalar(row) == 3
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").status_code == 200
    usage_tasks.meter_and_post()
    assert session.scalar(row) == 6


def test_scheduler_runs_metering(rolled_back_app):
    queued_calls.clear()
    schedule = Scheduler(rolled_back_app)
    with rolled_back_app.app_context():
        for call, seconds in schedule.calls.items():
            if seconds == 300:
                call()
    assert ("worker.tasks.usage.meter_and_post", ()) in queued_calls

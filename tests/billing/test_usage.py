"""Hours, months and charges: whatever happens and whenever the count runs, everything adds up to the cent."""

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
from panel.core.db import new_id, session
from panel.models import Account, CreditLedgerEntry, Setting, UsageHour, UsageMonth
from panel.services import accounts, credits, usage
from panel.services import settings as platform
from panel.services.usage import truncate_to_hour
from tests.conftest import queued_calls
from tests.support.isolated_app import isolated_installation
from worker.engine import purge
from worker.engine.scheduler import Scheduler
from worker.tasks import usage as counting

START = datetime(2026, 1, 20, 22, 15, tzinfo=UTC)
HOUR = timedelta(hours=1)
numbers = count()


@pytest.fixture
def clock_at_start(set_clock):
    """The clock stands at the start."""
    set_clock(START)


@pytest.fixture
def customer(rolled_back_app):
    return accounts.create(email=f"customer-{next(numbers)}@example.com")


def start_metering(account, price="7.30", billing_mode="cloud_service"):
    thing = SimpleNamespace(id=new_id(), account_id=account.id)
    usage.start_metering("instance", thing, name="web", plan="S", price=Decimal(price), billing_mode=billing_mode)
    return thing


def month_rows(account):
    return {row.month: (row.hours, row.charge) for row in session.execute(usage.select_months(account))}


def ledger_entries(account):
    return [entry.amount for entry in session.scalars(credits.listing(account))]


def test_a_month_costs_the_price_and_no_more(set_clock, clock_at_start, billing_enabled, customer):
    """January has 744 hours, of which 730 cost; February has 672."""
    set_clock(datetime(2025, 12, 31, 23, 0, tzinfo=UTC))
    start_metering(customer, "4.00")
    set_clock(datetime(2026, 3, 1, 0, 0, tzinfo=UTC))
    counting.meter_and_post()
    found = month_rows(customer)
    assert found["2025-12"][0] == 1
    assert found["2026-01"] == (744, Decimal("4.000000"))
    assert found["2026-02"] == (672, Decimal("3.682192"))
    assert ledger_entries(customer) == [Decimal("-3.68"), Decimal("-4.00"), Decimal("-0.01")]
    assert credits.get_balance(customer) == Decimal("-7.69")


def test_a_started_hour_counts_and_destroying_ends_it(set_clock, clock_at_start, billing_enabled, customer):
    thing = start_metering(customer)
    set_clock(START + timedelta(minutes=50))  # 23:05
    usage.stop_metering(thing)
    set_clock(START + timedelta(days=2))
    counting.meter_and_post()
    hours = session.scalars(select(UsageHour.hour).where(UsageHour.resource_id == thing.id)).all()
    assert hours == [START.replace(minute=0), START.replace(minute=0) + HOUR]


def test_what_was_not_destroyed_after_all_goes_on(set_clock, clock_at_start, billing_enabled, customer):
    thing = start_metering(customer)
    usage.stop_metering(thing)
    set_clock(START + 5 * HOUR)
    counting.meter_and_post()
    assert month_rows(customer)["2026-01"][0] == 1
    usage.resume_metering(thing.id)
    counting.meter_and_post()
    assert month_rows(customer)["2026-01"][0] == 5


def test_counting_twice_is_counting_once(set_clock, clock_at_start, billing_enabled, customer):
    start_metering(customer)
    set_clock(START + timedelta(days=3))
    for _ in range(3):
        counting.meter_and_post()
    assert month_rows(customer)["2026-01"][0] == 72
    assert ledger_entries(customer) == [Decimal("-0.72")]


def test_the_ledger_is_written_once_a_day(set_clock, clock_at_start, billing_enabled, customer):
    start_metering(customer, "73")
    for hours in range(1, 49):
        set_clock(START + hours * HOUR)
        counting.meter_and_post()
    assert len(ledger_entries(customer)) == 3  # on the 20th, 21st and 22nd
    set_clock(START + timedelta(days=3))
    counting.meter_and_post()
    assert credits.get_balance(customer) == -Decimal("0.10") * 72


def test_a_change_of_price_counts_from_the_next_hour(set_clock, clock_at_start, billing_enabled, customer):
    thing = start_metering(customer, "730")
    set_clock(START + timedelta(minutes=10))
    usage.change_price(thing, plan="M", price=Decimal(1460))
    set_clock(START + timedelta(minutes=20))
    usage.change_price(thing, plan="L", price=Decimal(2190))
    set_clock(START + 3 * HOUR)
    counting.meter_and_post()
    prices = select(UsageHour.charge).where(UsageHour.resource_id == thing.id).order_by(UsageHour.hour)
    assert session.scalars(prices).all() == [1, 3, 3]
    assert session.scalar(select(UsageMonth.plan).where(UsageMonth.account_id == customer.id)) == "L"


def test_a_resource_whose_metering_ended_is_not_charged_by_a_later_change_of_price(clock_at_start, customer):
    thing = start_metering(customer, "730")
    usage.stop_metering(thing)
    assert usage.change_price(thing, plan="M", price=Decimal(1460)) is None
    assert usage.transfer(thing) is None
    assert usage.lock_latest(thing.id).ended_at is not None


@pytest.mark.parametrize("who", ["unbilled", "external", "off"])
def test_what_nobody_charges_is_recorded_for_nothing(
    set_clock, clock_at_start, rolled_back_app, customer, request, who
):
    if who != "off":
        request.getfixturevalue("billing_enabled")
    customer.self_provisioning = who == "unbilled"
    thing = start_metering(customer, billing_mode="external" if who == "external" else "cloud_service")
    set_clock(START + timedelta(days=1))
    counting.meter_and_post()
    assert month_rows(customer) == {"2026-01": (24, 0)}
    assert ledger_entries(customer) == []
    mode = {"unbilled": "self_provisioned", "external": "external", "off": "cloud_service"}[who]
    assert set(session.scalars(select(UsageHour.billing_mode).where(UsageHour.resource_id == thing.id))) == {mode}


def test_hours_are_removed_in_time_and_months_stay(set_clock, clock_at_start, billing_enabled, customer):
    start_metering(customer)
    set_clock(START + 2 * HOUR)
    counting.meter_and_post()
    set_clock(START + timedelta(days=401))
    purge.purge_expired()
    assert session.scalar(select(func.count()).where(UsageHour.account_id == customer.id)) == 0
    assert month_rows(customer)["2026-01"][0] == 2


minutes = st.integers(0, 70 * 24 * 60)
prices = st.decimals("0.01", "900", places=4)
lives = st.lists(
    st.tuples(minutes, prices, st.lists(st.tuples(minutes, prices), max_size=3), st.none() | minutes),
    min_size=1,
    max_size=3,
)


@given(lives=lives, runs=st.lists(minutes, max_size=12))
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # a smaller example would take minutes to find
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_everything_adds_up(set_clock, billing_enabled, rolled_back_app, lives, runs):
    """Whatever is made, changed and destroyed when, and whenever the count runs: the hours are those that a plain look
    at each hour finds, the ledger is their charge to the cent in each month, and the balance is the ledger's sum."""
    customer = accounts.create(email=f"customer-{next(numbers)}@example.com")
    things, told = {}, []
    for number, (begun, price, changes, ended) in enumerate(lives):
        told.append((begun, 0, number, ("begin", price)))
        told += [(moment, 1, number, ("change", new)) for moment, new in changes if begun < moment]
        told += [(ended, 2, number, ("end", None))] if ended is not None and ended > begun else []
    told += [(moment, 3, None, ("count", None)) for moment in runs]
    over = {}
    history = {number: [] for number in range(len(lives))}
    for moment, _, number, (what, price) in sorted(told, key=lambda each: each[:2]):
        now = START + timedelta(minutes=moment)
        set_clock(now)
        if what == "count":
            counting.meter_and_post()
        elif number in over:
            continue
        elif what == "begin":
            things[number] = start_metering(customer, price)
            history[number].append((now, price))
        elif what == "change":
            usage.change_price(things[number], plan="M", price=price)
            history[number].append((now, price))
        else:
            usage.stop_metering(things[number])
            over[number] = now
    last = START + timedelta(days=72)
    set_clock(last)
    counting.meter_and_post()
    for thing in things.values():
        usage.stop_metering(thing)
    set_clock(last + timedelta(days=1))
    counting.meter_and_post()
    found = month_rows(customer)
    expected = {}
    for number, steps in history.items():
        for month, hours, charge in charge_by_hours(steps, over.get(number, last)):
            was = expected.get(month, (0, Decimal(0)))
            expected[month] = was[0] + hours, was[1] + charge
    assert found == expected
    entries = session.scalars(credits.listing(customer)).all()
    for month, (_, charge) in found.items():
        booked = -sum((entry.amount for entry in entries if entry.month == month), Decimal(0))
        assert abs(booked - charge) <= Decimal("0.005")
        assert booked == booked.quantize(Decimal("0.01"))
    assert credits.get_balance(customer) == sum(entry.amount for entry in entries)
    single = select(func.sum(UsageHour.charge)).where(UsageHour.account_id == customer.id)
    assert session.scalar(single) == sum(charge for _, charge in found.values())


def charge_by_hours(steps, ended):
    """Month, hours and charge of one resource, by looking at every hour: the price at its beginning holds."""
    hour, sums = steps[0][0].replace(minute=0), {}
    while hour < ended:
        price = [price for since, price in steps if since <= max(hour, steps[0][0])][-1]
        month = f"{hour:%Y-%m}"
        number, charge = sums.get(month, (0, Decimal(0)))
        step = [(price * min(n, 730) / 730).quantize(Decimal("0.000001")) for n in (number, number + 1)]
        sums[month] = number + 1, charge + step[1] - step[0]
        hour += HOUR
    return [(month, *found) for month, found in sums.items()]


def test_an_instance_is_rented_until_its_destroying_is_asked_for(
    set_clock, clock_at_start, billing_enabled, api_as, cast, run_tasks
):
    """The row of the machine may stay for long while its node is away: that costs nothing."""
    instance = cast.instance()
    set_clock(START + 3 * HOUR)
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    set_clock(START + 9 * HOUR)
    run_tasks()
    counting.meter_and_post()
    row = session.scalar(select(UsageMonth).where(UsageMonth.resource_id == instance.id))
    assert (row.hours, row.plan, row.price, row.account_id) == (4, "S", 4, cast.owner.id)
    assert session.scalar(select(Account.balance).where(Account.id == cast.owner.id)) == Decimal("-0.02")
    assert (
        session.scalar(select(CreditLedgerEntry.actor).where(CreditLedgerEntry.account_id == cast.owner.id)) == "system"
    )


def test_many_who_count_at_once_count_once(tmp_path, monkeypatch):
    """On real threads with real commits: no hour is lost or doubled, and each ledger is written once."""
    begun = truncate_to_hour(clock.now()) - 50 * HOUR
    with isolated_installation(tmp_path) as app:
        with app.app_context():
            session.add(Setting(name="billing_enabled", value=True))
            people = [accounts.create(email=f"p{number}@example.com") for number in range(3)]
            monkeypatch.setattr(clock, "now", lambda: begun)
            for person in people:
                for _ in range(3):
                    start_metering(person, "73")
            session.commit()
            platform.invalidate()
        monkeypatch.setattr(clock, "now", lambda: begun + 50 * HOUR)
        failures = []

        def run():
            with app.app_context():
                try:
                    counting.meter_and_post()
                except Exception as error:
                    failures.append(error)
                finally:
                    session.remove()

        hands = [threading.Thread(target=run) for _ in range(6)]
        for hand in hands:
            hand.start()
        for hand in hands:
            hand.join()
        assert failures == []
        with app.app_context():
            for person in people:
                assert sum(hours for hours, _ in month_rows(person).values()) == 150
                assert credits.get_balance(person) == Decimal(-15) == sum(ledger_entries(person))
                assert len(ledger_entries(person)) == len(month_rows(person))
        platform.invalidate()


def test_an_instance_that_could_not_be_destroyed_costs_on(
    set_clock, clock_at_start, billing_enabled, api_as, cast, run_tasks, node
):
    instance = cast.instance()
    node.fault("delete", "refuse", 1)
    set_clock(START + 2 * HOUR)
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    set_clock(START + 6 * HOUR)
    counting.meter_and_post()
    row = select(UsageMonth.hours).where(UsageMonth.resource_id == instance.id)
    assert session.scalar(row) == 3
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").status_code == 200
    counting.meter_and_post()
    assert session.scalar(row) == 6


def test_the_schedule_has_it_counted(rolled_back_app):
    queued_calls.clear()
    schedule = Scheduler(rolled_back_app)
    with rolled_back_app.app_context():
        for call, seconds in schedule.calls.items():
            if seconds == 300:
                call()
    assert queued_calls == [("worker.tasks.usage.meter_and_post", ())]

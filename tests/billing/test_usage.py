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
from panel.models import Account, CreditEntry, Setting, UsageHour, UsageMonth
from panel.services import accounts, credits, usage
from panel.services import settings as platform
from panel.services.usage import hour_of
from tests.conftest import bells
from tests.support.isolated_app import installation
from worker.engine import purge
from worker.engine.scheduler import Schedule
from worker.tasks import usage as counting

START = datetime(2026, 1, 20, 22, 15, tzinfo=UTC)
HOUR = timedelta(hours=1)
numbers = count()


@pytest.fixture
def begun(at):
    """The clock stands at the start."""
    at(START)


@pytest.fixture
def customer(world):
    return accounts.create(email=f"customer-{next(numbers)}@example.com")


def rented(account, price="7.30", billing_mode="cloud_service"):
    thing = SimpleNamespace(id=new_id(), account_id=account.id)
    usage.begin("instance", thing, name="web", plan="S", price=Decimal(price), billing_mode=billing_mode)
    return thing


def months(account):
    return {row.month: (row.hours, row.charge) for row in session.execute(usage.months(account))}


def ledger(account):
    return [entry.amount for entry in session.scalars(credits.listing(account))]


def test_a_month_costs_the_price_and_no_more(at, begun, billed, customer):
    """January has 744 hours, of which 730 cost; February has 672."""
    at(datetime(2025, 12, 31, 23, 0, tzinfo=UTC))
    rented(customer, "4.00")
    at(datetime(2026, 3, 1, 0, 0, tzinfo=UTC))
    counting.count()
    found = months(customer)
    assert found["2025-12"][0] == 1
    assert found["2026-01"] == (744, Decimal("4.000000"))
    assert found["2026-02"] == (672, Decimal("3.682192"))
    assert ledger(customer) == [Decimal("-3.68"), Decimal("-4.00"), Decimal("-0.01")]
    assert credits.balance(customer) == Decimal("-7.69")


def test_a_started_hour_counts_and_destroying_ends_it(at, begun, billed, customer):
    thing = rented(customer)
    at(START + timedelta(minutes=50))  # 23:05
    usage.end(thing)
    at(START + timedelta(days=2))
    counting.count()
    hours = session.scalars(select(UsageHour.hour).where(UsageHour.resource_id == thing.id)).all()
    assert hours == [START.replace(minute=0), START.replace(minute=0) + HOUR]


def test_what_was_not_destroyed_after_all_goes_on(at, begun, billed, customer):
    thing = rented(customer)
    usage.end(thing)
    at(START + 5 * HOUR)
    counting.count()
    assert months(customer)["2026-01"][0] == 1
    usage.resume(thing.id)
    counting.count()
    assert months(customer)["2026-01"][0] == 5


def test_counting_twice_is_counting_once(at, begun, billed, customer):
    rented(customer)
    at(START + timedelta(days=3))
    for _ in range(3):
        counting.count()
    assert months(customer)["2026-01"][0] == 72
    assert ledger(customer) == [Decimal("-0.72")]


def test_the_ledger_is_written_once_a_day(at, begun, billed, customer):
    rented(customer, "73")
    for hours in range(1, 49):
        at(START + hours * HOUR)
        counting.count()
    assert len(ledger(customer)) == 3  # on the 20th, 21st and 22nd
    at(START + timedelta(days=3))
    counting.count()
    assert credits.balance(customer) == -Decimal("0.10") * 72


def test_a_change_of_price_counts_from_the_next_hour(at, begun, billed, customer):
    thing = rented(customer, "730")
    at(START + timedelta(minutes=10))
    usage.change(thing, plan="M", price=Decimal(1460))
    at(START + timedelta(minutes=20))
    usage.change(thing, plan="L", price=Decimal(2190))
    at(START + 3 * HOUR)
    counting.count()
    prices = select(UsageHour.charge).where(UsageHour.resource_id == thing.id).order_by(UsageHour.hour)
    assert session.scalars(prices).all() == [1, 3, 3]
    assert session.scalar(select(UsageMonth.plan).where(UsageMonth.account_id == customer.id)) == "L"


@pytest.mark.parametrize("who", ["unbilled", "external", "off"])
def test_what_nobody_charges_is_recorded_for_nothing(at, begun, world, customer, request, who):
    if who != "off":
        request.getfixturevalue("billed")
    customer.self_provisioning = who == "unbilled"
    thing = rented(customer, billing_mode="external" if who == "external" else "cloud_service")
    at(START + timedelta(days=1))
    counting.count()
    assert months(customer) == {"2026-01": (24, 0)}
    assert ledger(customer) == []
    mode = {"unbilled": "self_provisioned", "external": "external", "off": "cloud_service"}[who]
    assert set(session.scalars(select(UsageHour.billing_mode).where(UsageHour.resource_id == thing.id))) == {mode}


def test_hours_are_removed_in_time_and_months_stay(at, begun, billed, customer):
    rented(customer)
    at(START + 2 * HOUR)
    counting.count()
    at(START + timedelta(days=401))
    purge.tidy()
    assert session.scalar(select(func.count()).where(UsageHour.account_id == customer.id)) == 0
    assert months(customer)["2026-01"][0] == 2


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
def test_everything_adds_up(at, billed, world, lives, runs):
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
        at(now)
        if what == "count":
            counting.count()
        elif number in over:
            continue
        elif what == "begin":
            things[number] = rented(customer, price)
            history[number].append((now, price))
        elif what == "change":
            usage.change(things[number], plan="M", price=price)
            history[number].append((now, price))
        else:
            usage.end(things[number])
            over[number] = now
    last = START + timedelta(days=72)
    at(last)
    counting.count()
    for thing in things.values():
        usage.end(thing)
    at(last + timedelta(days=1))
    counting.count()
    found = months(customer)
    expected = {}
    for number, steps in history.items():
        for month, hours, charge in plainly(steps, over.get(number, last)):
            was = expected.get(month, (0, Decimal(0)))
            expected[month] = was[0] + hours, was[1] + charge
    assert found == expected
    entries = session.scalars(credits.listing(customer)).all()
    for month, (_, charge) in found.items():
        booked = -sum((entry.amount for entry in entries if entry.month == month), Decimal(0))
        assert abs(booked - charge) <= Decimal("0.005")
        assert booked == booked.quantize(Decimal("0.01"))
    assert credits.balance(customer) == sum(entry.amount for entry in entries)
    single = select(func.sum(UsageHour.charge)).where(UsageHour.account_id == customer.id)
    assert session.scalar(single) == sum(charge for _, charge in found.values())


def plainly(steps, ended):
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


def test_an_instance_is_rented_until_its_destroying_is_asked_for(at, begun, billed, as_, cast, work):
    """The row of the machine may stay for long while its node is away: that costs nothing."""
    instance = cast.instance()
    at(START + 3 * HOUR)
    as_("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    at(START + 9 * HOUR)
    work()
    counting.count()
    row = session.scalar(select(UsageMonth).where(UsageMonth.resource_id == instance.id))
    assert (row.hours, row.plan, row.price, row.account_id) == (4, "S", 4, cast.owner.id)
    assert session.scalar(select(Account.balance).where(Account.id == cast.owner.id)) == Decimal("-0.02")
    assert session.scalar(select(CreditEntry.actor).where(CreditEntry.account_id == cast.owner.id)) == "system"


def test_many_who_count_at_once_count_once(tmp_path, monkeypatch):
    """On real threads with real commits: no hour is lost or doubled, and each ledger is written once."""
    begun = hour_of(clock.now()) - 50 * HOUR
    with installation(tmp_path) as app:
        with app.app_context():
            session.add(Setting(name="billing_enabled", value=True))
            people = [accounts.create(email=f"p{number}@example.com") for number in range(3)]
            monkeypatch.setattr(clock, "now", lambda: begun)
            for person in people:
                for _ in range(3):
                    rented(person, "73")
            session.commit()
            platform.forget()
        monkeypatch.setattr(clock, "now", lambda: begun + 50 * HOUR)
        failures = []

        def run():
            with app.app_context():
                try:
                    counting.count()
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
                assert sum(hours for hours, _ in months(person).values()) == 150
                assert credits.balance(person) == Decimal(-15) == sum(ledger(person))
                assert len(ledger(person)) == len(months(person))
        platform.forget()


def test_an_instance_that_could_not_be_destroyed_costs_on(at, begun, billed, as_, cast, work, node):
    instance = cast.instance()
    node.fault("delete", "refuse", 1)
    at(START + 2 * HOUR)
    as_("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    at(START + 6 * HOUR)
    counting.count()
    row = select(UsageMonth.hours).where(UsageMonth.resource_id == instance.id)
    assert session.scalar(row) == 3
    work()
    assert as_("owner", "GET", f"/api/instance/{instance.id}").status_code == 200
    counting.count()
    assert session.scalar(row) == 6


def test_the_schedule_has_it_counted(world):
    bells.clear()
    schedule = Schedule(world)
    with world.app_context():
        for call, seconds in schedule.calls.items():
            if seconds == 300:
                call()
    assert bells == [("worker.tasks.usage.count", ())]

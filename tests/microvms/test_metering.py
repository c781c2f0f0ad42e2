"""What micro VMs cost: every started hour counts in every state, until the end is requested or the create fails."""

from datetime import timedelta
from decimal import Decimal

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import UsageHour
from panel.services import usage
from worker.tasks import usage as usage_tasks

PRICE, HOUR_PRICE = Decimal("7.30"), Decimal("0.01")
ONE_HOUR = timedelta(hours=1)


@pytest.fixture
def begin(monkeypatch):
    """The first minute of the current hour, at which the clock stands."""
    moment = usage.truncate_to_hour(clock.now()) + timedelta(minutes=1)
    monkeypatch.setattr(clock, "now", lambda: moment)
    return moment


def list_charges(microvm):
    usage_tasks.meter_and_post()
    query = select(UsageHour.hour, UsageHour.charge, UsageHour.billing_mode)
    return session.execute(query.where(UsageHour.resource_id == microvm.id).order_by(UsageHour.hour)).all()


def test_every_hour_counts_in_every_state(begin, monkeypatch, image, create_microvm, request_action, run_tasks, reload):
    image.price = PRICE
    microvm = create_microvm()
    states = {"pause": "paused", "resume": "running", "stop": "stopped", "start": "running"}
    for number, (action, state) in enumerate(states.items(), 1):
        monkeypatch.setattr(clock, "now", lambda number=number: begin + number * ONE_HOUR)
        request_action(microvm, action)
        run_tasks()
        assert reload(microvm).state == state
    monkeypatch.setattr(clock, "now", lambda: begin + 5 * ONE_HOUR)
    request_action(microvm, "destroy")
    monkeypatch.setattr(clock, "now", lambda: begin + 9 * ONE_HOUR)
    run_tasks()
    assert reload(microvm).ended_at is not None
    charges = list_charges(microvm)
    first = usage.truncate_to_hour(begin)
    assert [row.hour for row in charges] == [first + number * ONE_HOUR for number in range(6)]
    assert {(row.charge, row.billing_mode) for row in charges} == {(HOUR_PRICE, "cloud_service")}


def test_microvm_of_image_without_price_costs_nothing(begin, monkeypatch, create_microvm):
    microvm = create_microvm()
    monkeypatch.setattr(clock, "now", lambda: begin + 5 * ONE_HOUR)
    assert list_charges(microvm) == []


def test_microvm_that_could_not_be_created_costs_nothing_from_then_on(
    begin, monkeypatch, image, node, create_microvm, request_action, run_tasks, reload
):
    image.price = PRICE
    node.fault("start", "full", 1)
    microvm = create_microvm()
    assert reload(microvm).state == "failed"
    monkeypatch.setattr(clock, "now", lambda: begin + 5 * ONE_HOUR)
    request_action(microvm, "destroy")
    run_tasks()
    assert reload(microvm).ended_at is not None
    monkeypatch.setattr(clock, "now", lambda: begin + 9 * ONE_HOUR)
    assert [row.hour for row in list_charges(microvm)] == [usage.truncate_to_hour(begin)]

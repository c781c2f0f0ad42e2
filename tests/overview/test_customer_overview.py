"""The customers' overview: rows of instances, costs, what happened since the last visit, first steps."""

from datetime import UTC, datetime, timedelta

import pytest
from lxml import html

from panel.core import clock
from panel.core.db import session
from panel.models import Account, SecurityGroupMember, SshKey
from panel.schemas.backup_policies import DEFAULTS
from panel.services import backup_policies, customer_checklist, instances, metrics, settings, usage
from panel.services import security_groups as groups
from panel.services.access import Access
from tests.support.metrics import SAMPLE


@pytest.fixture
def load(browser_as):
    browser = browser_as("owner")
    return lambda: html.fromstring(browser.get("/").text)


@pytest.fixture
def running(cast, run_tasks):
    """A deployed instance with samples, whose plan includes 1,000 GB of traffic, and 250 GB of it used."""
    instance = cast.instance(display_name="shop-1")
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    for age in (0, 300, 600):
        metrics.write({instance.id: SAMPLE}, clock.now().timestamp() - age, step=300)
    interface = next(row for row in instance.interfaces if row.kind == "public")
    interface.received, interface.period = 250 * 10**9, usage.make_month_key(clock.now())
    session.commit()
    return instance


def test_row_of_instance_shows_load_traffic_address_and_console(load, running):
    (row,) = load().xpath(f"//tr[@id='instance-{running.id}']")
    text = " ".join(row.text_content().split())
    assert "12.5 %" in text
    assert "4.50 Mbit/s" in text
    assert "250 GB of 1 TB" in text
    assert len(row.xpath(".//*[name()='svg' and contains(@class, 'sparkline')]")) == 2
    assert row.xpath(f".//button[@data-copy='{running.ipv4}']")
    assert row.xpath(f".//form[@action='/instances/{running.id}/console']/button[@aria-label='Console of shop-1']")


def test_instance_without_samples_has_no_curves(load, cast):
    instance = cast.instance()
    (row,) = load().xpath(f"//tr[@id='instance-{instance.id}']")
    assert not row.xpath(".//*[name()='svg' and contains(@class, 'sparkline')]")


def test_costs_are_shown_only_where_they_are_charged(load, cast, monkeypatch):
    assert "expected" not in load().text_content()
    settings.update({"billing_enabled": True})
    cast.instance()
    session.commit()
    assert "this month so far, €" in load().text_content()
    begin = datetime(2030, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(clock, "now", lambda: begin + timedelta(hours=365))
    assert usage.estimate_charge(0, session.get(Account, cast.owner.id)) == 2  # half of the month is left


def test_events_since_the_last_visit_are_separate(load, running, monkeypatch):
    assert "Since your last visit" not in load().text_content()
    start = clock.now()
    monkeypatch.setattr(clock, "now", lambda: start + timedelta(minutes=20))
    assert "Since your last visit" not in load().text_content()  # the same visit
    monkeypatch.setattr(clock, "now", lambda: start + timedelta(hours=3))
    text = load().text_content()
    assert "Since your last visit" in text
    assert "Nothing happened." in text
    assert "Earlier" in text


@pytest.mark.parametrize("value", ["x", "{}.99999999999.99999999999", "{}.-1.5", "{}.0.0"])
def test_invalid_cookie_is_ignored(browser_as, running, cast, value):
    browser = browser_as("owner")
    browser.set_cookie("panel_visit", value.format(cast.owner.id))
    answer = browser.get("/")
    assert answer.status_code == 200
    assert "Since your last visit" not in answer.text


def list_open(cast):
    session.flush()
    owner = session.get(Account, cast.owner.id)
    access = Access(id=owner.id, person_id=owner.id, email=owner.email)
    return [name for name, is_done in customer_checklist.list_steps(access, owner).items() if not is_done]


def test_steps_are_done_one_after_another(cast):
    assert list_open(cast) == ["ssh_key", "instance", "firewall", "backup", "second_factor"]
    session.add(SshKey(account_id=cast.owner.id, name="k", public_key="ssh-ed25519 A", fingerprint="f"))
    instance = cast.instance()
    assert list_open(cast) == ["firewall", "backup", "second_factor"]
    group = groups.create(cast.owner, name="web")
    session.add(SecurityGroupMember(group_id=group.id, instance_id=instance.id))
    policy = backup_policies.create(cast.owner, **DEFAULTS | {"name": "nightly", "retention_count": 3})
    backup_policies.attach(policy, instance)
    session.get(Account, cast.owner.id).two_factor_at = clock.now()
    assert list_open(cast) == []


def test_customer_hides_first_steps(browser_as, cast):
    browser = browser_as("owner")
    assert "First steps" in browser.get("/").text
    browser.post("/checklist/hide")
    assert "First steps" not in browser.get("/").text
    browser.post("/checklist/show")
    assert "First steps" in browser.get("/").text


def test_number_of_queries_does_not_grow_with_instances(load, cast, queries):
    cast.instance()
    load()
    queries.clear()
    load()
    few = len(queries)
    for _ in range(4):
        cast.instance()
    queries.clear()
    load()
    assert len(queries) == few

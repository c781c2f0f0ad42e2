"""The history of a hypervisor: when it did not answer, and its tasks."""

from datetime import timedelta

import pytest
from lxml import html
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import HypervisorOutage, Task
from panel.services import hypervisor_outages, hypervisors
from worker.sync import node_sync


@pytest.fixture
def advance_clock(monkeypatch):
    """Return a function that moves the clock by that many seconds."""
    start, seconds = clock.now(), [0]
    monkeypatch.setattr(clock, "now", lambda: start + timedelta(seconds=seconds[0]))
    return lambda more: seconds.append(seconds.pop() + more)


@pytest.fixture
def poll_node(cast):
    def poll():
        node_sync.reconcile(cast.node.id)
        session.expire_all()

    return poll


def list_outages():
    return session.scalars(select(HypervisorOutage).order_by(HypervisorOutage.id)).all()


def read_rows(browser, path):
    """Return the texts of the cells of each row of a list."""
    rows = html.fromstring(browser.get(path).text).xpath("//div[@id='rows']//tbody/tr")
    return [[" ".join(cell.text_content().split()) for cell in row.xpath("td")] for row in rows]


def test_outage_is_recorded_once_and_ends_with_the_first_answer(cast, short_deadline_node, poll_node, advance_clock):
    poll_node()
    assert list_outages() == []
    short_deadline_node.fault("*", "silent")
    began_at = clock.now()
    poll_node()
    for _ in range(3):
        advance_clock(30)
        poll_node()
    (outage,) = list_outages()
    assert (outage.began_at, outage.ended_at) == (began_at, None)
    assert "silent" in outage.detail
    short_deadline_node.clear()
    poll_node()
    assert [(row.id, row.ended_at) for row in list_outages()] == [(outage.id, began_at + timedelta(seconds=90))]
    poll_node()
    short_deadline_node.fault("*", "silent")
    poll_node()
    assert [bool(row.ended_at) for row in list_outages()] == [True, False]


def test_connection_test_during_an_outage_does_not_split_it(cast, short_deadline_node, poll_node):
    poll_node()
    short_deadline_node.fault("*", "silent")
    poll_node()
    hypervisors.test(cast.node)
    session.commit()
    assert cast.node.status == "unknown"
    poll_node()
    assert [row.ended_at for row in list_outages()] == [None]


def test_outages_page_lists_them_newest_first(cast, browser_as, queries):
    noon = clock.now().replace(hour=12, minute=0, second=0, microsecond=0)
    ended = {"began_at": noon, "ended_at": noon + timedelta(minutes=5), "detail": "The host rebooted."}
    session.add(HypervisorOutage(hypervisor_id=cast.node.id, **ended))
    session.flush()
    session.add(HypervisorOutage(hypervisor_id=cast.node.id, detail="No route to host."))
    session.commit()
    browser, path = browser_as("admin"), f"/admin/hypervisors/{cast.node.id}/outages"
    newest, oldest = read_rows(browser, path)
    assert (newest[0], newest[2], newest[4]) == ("Not reachable", "", "No route to host.")
    assert (oldest[0], oldest[3], oldest[4]) == ("Over", "5 min", "The host rebooted.")
    queries.clear()
    browser.get(path)
    few = len(queries)
    session.add_all(HypervisorOutage(hypervisor_id=cast.node.id, **ended) for _ in range(20))
    session.commit()
    queries.clear()
    assert len(read_rows(browser, path)) == 22
    assert len(queries) <= few


def test_outages_are_purged_after_their_retention_and_with_their_hypervisor(cast):
    long_ago = clock.now() - hypervisor_outages.RETENTION - timedelta(days=1)
    lasting = HypervisorOutage(hypervisor_id=cast.node.id, began_at=long_ago, detail="It still lasts.")
    old = HypervisorOutage(hypervisor_id=cast.node.id, began_at=long_ago, ended_at=long_ago, detail="Over.")
    session.add_all([lasting, old])
    session.commit()
    hypervisor_outages.purge_expired()
    assert [row.detail for row in list_outages()] == ["It still lasts."]
    hypervisors.delete(cast.node)
    session.expire_all()
    assert list_outages() == []


def add_task(cast, name, **values):
    task = Task(kind="instance_start", resource_type="instance", resource_id=cast.owner.id, resource_name=name)
    for field, value in {"hypervisor_id": cast.node.id, "status": "completed", **values}.items():
        setattr(task, field, value)
    session.add(task)
    session.flush()


def test_tasks_tab_lists_only_the_tasks_of_the_hypervisor(cast, browser_as, queries):
    add_task(cast, "earlier")
    add_task(cast, "elsewhere", hypervisor_id=None)
    add_task(cast, "later", status="failed", error="No room.")
    session.commit()
    browser, path = browser_as("admin"), f"/admin/hypervisors/{cast.node.id}/tasks"
    rows = read_rows(browser, path)
    assert [row[2] for row in rows] == ["later", "earlier"]
    assert "No room." in rows[0][1]
    assert [row[2] for row in read_rows(browser, f"{path}?sort_by=started")] == ["earlier", "later"]
    queries.clear()
    browser.get(path)
    few = len(queries)
    for _ in range(20):
        add_task(cast, "more")
    session.commit()
    queries.clear()
    assert len(read_rows(browser, path)) == 22
    assert len(queries) <= few


def test_tasks_of_a_hypervisor_are_read_by_an_index(cast, rolled_back_app):
    if session.get_bind().dialect.name != "sqlite":
        return
    from panel.services import tasks

    query = tasks.listing(hypervisor_id=cast.node.id).limit(25)
    statement = str(query.compile(session.get_bind(), compile_kwargs={"literal_binds": True}))
    plan = " ".join(row[3] for row in session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}"))
    assert "ix_tasks_hypervisor_id_id" in plan
    assert "TEMP B-TREE" not in plan

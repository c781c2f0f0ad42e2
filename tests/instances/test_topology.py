"""Sockets, cores and threads: set by operators, in the machine at its next start."""

import re
from dataclasses import replace

import orjson
import pytest
from lxml import etree

from panel.core.db import session
from panel.services import catalog, instances
from tests.test_pages import PARTIAL_HEADERS
from worker.nodes.base import Machine
from worker.nodes.libvirt import xml
from worker.tasks.machine_spec import build_spec as described


@pytest.fixture
def running(cast, node, run_tasks):
    plan = catalog.create_plan(cast.plan.group, name="four", cpu_cores=4, ram=512, storage=10, price=4)
    instance = cast.instance(plan_id=plan.id)
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    return instance


def put_topology(as_, instance, **body):
    return as_("admin", "PUT", f"/api/v1/instance/{instance.id}/modify/topology", json=body)


def live_topology(node, instance):
    [row] = node.state.rows("SELECT live FROM machines WHERE id = ?", instance.id)
    return orjson.loads(row["live"])["topology"]


def test_it_waits_for_the_next_start(api_as, running, run_tasks, node):
    """INS-82"""
    made = put_topology(api_as, running, sockets=1, cores=2, threads=2).json["data"]
    assert (made["topology"], made["topology_pending"]) == ({"sockets": 1, "cores": 2, "threads": 2}, True)
    run_tasks()
    assert live_topology(node, running) is None
    assert api_as("owner", "POST", f"/api/instance/{running.id}/power/restart").status_code == 200
    run_tasks()
    assert live_topology(node, running) == [1, 2, 2]
    found = api_as("owner", "GET", f"/api/instance/{running.id}").json
    assert (found["topology"]["threads"], found["topology_pending"]) == (2, False)


def test_it_is_shown_on_the_pages(api_as, browser_as, running):
    put_topology(api_as, running, sockets=1, cores=2, threads=2)
    words = "1 socket with 2 cores of 2 threads (takes effect at next boot)"
    assert words in browser_as("admin").get(f"/admin/instances/{running.id}").text
    assert words in browser_as("owner").get(f"/instances/{running.id}").text
    running.cpu_cores = 2
    session.commit()
    assert "one socket per core" in browser_as("owner").get(f"/instances/{running.id}").text


def test_it_has_to_make_up_the_cores(api_as, running):
    answer = put_topology(api_as, running, sockets=2, cores=4)
    assert (answer.status_code, answer.json["reason"]) == (422, "topology_mismatch")
    assert running.topology is None
    assert put_topology(api_as, running, sockets=0, cores=4).status_code == 422
    assert put_topology(api_as, running, cores=4).status_code == 422


def test_another_number_of_cores_ends_it(running):
    running.topology = {"sockets": 1, "cores": 4, "threads": 1}
    assert described(running).topology == (1, 4, 1)
    running.cpu_cores = 2
    assert described(running).topology is None


def test_customers_do_not_set_it(api_as, running):
    path = f"/api/v1/instance/{running.id}/modify/topology"
    assert api_as("owner", "PUT", path, json={"sockets": 1, "cores": 4}).status_code in (401, 403)


def test_domain_xml_contains_the_cpu_topology():
    machine = Machine("0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d", "m", 4, 512, ())
    for topology, told in ((None, []), ((1, 2, 2), [{"sockets": "1", "dies": "1", "cores": "2", "threads": "2"}])):
        made = etree.fromstring(xml.domain(replace(machine, topology=topology), {}, False, False, False))
        assert [dict(each.attrib) for each in made.iterfind("cpu/topology")] == told


def test_operators_set_it_on_the_page(browser_as, running, run_tasks, node):
    """INS-82"""
    operator, place = browser_as("admin"), f"/admin/instances/{running.id}"
    page = operator.get(f"{place}/settings").text
    assert "one socket per core" in page
    assert re.search(r'name="sockets"[^>]* value="4"', page)
    wrong = operator.post(f"{place}/topology", data={"sockets": "3", "cores": "1", "threads": "1"})
    assert (wrong.status_code, wrong.text.count("cores and threads must be 4")) == (422, 1)
    wrong = operator.post(f"{place}/topology", data={"sockets": "x", "cores": "1"}, headers=PARTIAL_HEADERS)
    assert ("wrong-sockets" in wrong.text, "<html" in wrong.text) == (True, False)
    chosen = {"sockets": "1", "cores": "2", "threads": "2"}
    assert operator.post(f"{place}/topology", data=chosen).headers["Location"] == f"{place}/settings"
    page = operator.get(f"{place}/settings").text
    assert "It takes effect at next boot." in page
    assert "1 socket with 2 cores of 2 threads (takes effect at next boot)" in page
    run_tasks()
    assert live_topology(node, running) is None
    instances.run_power_action(running, "restart", actor="test")
    session.commit()
    run_tasks()
    assert live_topology(node, running) == [1, 2, 2]
    assert "of 2 threads." in operator.get(f"{place}/settings").text


def test_the_page_of_it_is_the_operators(browser_as, cast, running):
    path, chosen = f"/admin/instances/{running.id}/topology", {"sockets": "4", "cores": "1", "threads": "1"}
    assert browser_as("owner").post(path, data=chosen).status_code == 403
    assert "Sockets" not in browser_as("owner").get(f"/instances/{running.id}/settings").text
    running.migrating = True
    session.commit()
    assert browser_as("admin").post(path, data=chosen).status_code == 409
    assert "Another task is in progress" in browser_as("admin").get(f"/admin/instances/{running.id}/settings").text
    cast.admin.operator_role = "read_only"
    session.commit()
    assert browser_as("admin").post(path, data=chosen).status_code == 403

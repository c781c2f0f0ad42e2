"""CPU topology: set by operators, applied at the next start."""

import re
from dataclasses import replace

import orjson
import pytest
from lxml import etree

from panel.core.db import session
from panel.services import catalog, instances
from tests.support.html_pages import PARTIAL_HEADERS
from worker.nodes.base import Machine
from worker.nodes.libvirt import xml
from worker.nodes.libvirt.capabilities import ProbedCapabilities
from worker.tasks.machine_spec import build_spec


@pytest.fixture
def running_instance(cast, node, run_tasks):
    plan = catalog.create_plan(cast.plan.group, name="four", cpu_cores=4, ram=512, storage=10, price=4)
    instance = cast.instance(plan_id=plan.id)
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    return instance


def put_topology(as_, instance, **body):
    return as_("admin", "PUT", f"/api/v1/instance/{instance.id}/modify/topology", json=body)


def get_live_topology(node, instance):
    [row] = node.state.rows("SELECT live FROM machines WHERE id = ?", instance.id)
    return orjson.loads(row["live"])["topology"]


def test_topology_applies_at_next_start(api_as, running_instance, run_tasks, node):
    """INS-82"""
    instance = put_topology(api_as, running_instance, sockets=1, cores=2, threads=2).json["data"]
    assert (instance["topology"], instance["topology_pending"]) == ({"sockets": 1, "cores": 2, "threads": 2}, True)
    run_tasks()
    assert get_live_topology(node, running_instance) is None
    assert api_as("owner", "POST", f"/api/instance/{running_instance.id}/power/restart").status_code == 200
    run_tasks()
    assert get_live_topology(node, running_instance) == [1, 2, 2]
    shown_instance = api_as("owner", "GET", f"/api/instance/{running_instance.id}").json
    assert (shown_instance["topology"]["threads"], shown_instance["topology_pending"]) == (2, False)


def test_topology_is_shown_on_pages(api_as, browser_as, running_instance):
    put_topology(api_as, running_instance, sockets=1, cores=2, threads=2)
    text = "1 socket with 2 cores of 2 threads (takes effect at next boot)"
    assert text in browser_as("admin").get(f"/admin/instances/{running_instance.id}").text
    assert text in browser_as("owner").get(f"/instances/{running_instance.id}").text
    running_instance.cpu_cores = 2
    session.commit()
    assert "one socket per core" in browser_as("owner").get(f"/instances/{running_instance.id}").text


def test_topology_must_match_core_count(api_as, running_instance):
    answer = put_topology(api_as, running_instance, sockets=2, cores=4)
    assert (answer.status_code, answer.json["reason"]) == (422, "topology_mismatch")
    assert running_instance.topology is None
    assert put_topology(api_as, running_instance, sockets=0, cores=4).status_code == 422
    assert put_topology(api_as, running_instance, cores=4).status_code == 422


def test_topology_is_dropped_after_core_change(running_instance):
    running_instance.topology = {"sockets": 1, "cores": 4, "threads": 1}
    assert build_spec(running_instance).topology == (1, 4, 1)
    running_instance.cpu_cores = 2
    assert build_spec(running_instance).topology is None


def test_customer_cannot_set_topology(api_as, running_instance):
    path = f"/api/v1/instance/{running_instance.id}/modify/topology"
    assert api_as("owner", "PUT", path, json={"sockets": 1, "cores": 4}).status_code in (401, 403)


def test_domain_xml_contains_the_cpu_topology():
    machine = Machine("0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d", "m", 4, 512, ())
    facts = ProbedCapabilities(False, "", bandwidth_limits=False, address_filters=False)
    for topology, attributes in (
        (None, []),
        ((1, 2, 2), [{"sockets": "1", "dies": "1", "cores": "2", "threads": "2"}]),
    ):
        domain = etree.fromstring(xml.build_domain_xml(replace(machine, topology=topology), {}, facts))
        assert [dict(topology_element.attrib) for topology_element in domain.iterfind("cpu/topology")] == attributes


def test_operator_sets_topology_on_page(browser_as, running_instance, run_tasks, node):
    """INS-82"""
    operator, place = browser_as("admin"), f"/admin/instances/{running_instance.id}"
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
    assert get_live_topology(node, running_instance) is None
    instances.run_power_action(running_instance, "restart", actor="test")
    session.commit()
    run_tasks()
    assert get_live_topology(node, running_instance) == [1, 2, 2]
    assert "of 2 threads." in operator.get(f"{place}/settings").text


def test_topology_form_is_only_for_operators(browser_as, cast, running_instance):
    path, chosen = f"/admin/instances/{running_instance.id}/topology", {"sockets": "4", "cores": "1", "threads": "1"}
    assert browser_as("owner").post(path, data=chosen).status_code == 403
    assert "Sockets" not in browser_as("owner").get(f"/instances/{running_instance.id}/settings").text
    running_instance.migrating = True
    session.commit()
    assert browser_as("admin").post(path, data=chosen).status_code == 409
    assert (
        "Another task is in progress"
        in browser_as("admin").get(f"/admin/instances/{running_instance.id}/settings").text
    )
    cast.admin.operator_role = "read_only"
    session.commit()
    assert browser_as("admin").post(path, data=chosen).status_code == 403

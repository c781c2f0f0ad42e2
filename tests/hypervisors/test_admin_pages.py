"""Hypervisors, storages and locations on the operators' pages."""

import re
from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, HypervisorGroup, Storage
from panel.services import hypervisors
from tests.test_pages import PARTIAL_HEADERS

NODES, PLACES = "/admin/hypervisors", "/admin/locations"


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


@pytest.fixture
def node(cast):
    """The test's own row of the node."""
    return session.get(Hypervisor, cast.node.id)


def form(cast, **values):
    return {
        "name": "node-2",
        "hypervisor_group_id": cast.location.id,
        "driver": "simulated",
        "uri": "simulated://",
        "storage_path": "/srv/disks",
        "network": "public",
        "cpu_overcommit": "1.5",
        "memory_overcommit": "1",
        "max_tasks": "4",
        **values,
    }


def test_a_new_node_is_tested_while_its_page_watches(operator, cast, run_tasks):
    answer = operator.post(f"{NODES}/new", data=form(cast))
    assert answer.status_code == 303
    page = operator.get(answer.headers["Location"]).text
    assert "Testing the connection" in page
    assert "every 1s" in page
    run_tasks()
    page = operator.get(answer.headers["Location"], headers=PARTIAL_HEADERS).text
    assert "Testing the connection" not in page
    assert "every 15s" in page
    assert "0 of 96 cores" in page


def test_a_node_that_does_not_answer_says_why(operator, cast, run_tasks):
    answer = operator.post(f"{NODES}/new", data=form(cast, uri="simulated://?cores=many"))
    run_tasks()
    page = operator.get(answer.headers["Location"]).text
    assert "Not reachable" in page
    assert "cores=many" in page
    assert "cores=many" in operator.get(NODES).text


def test_mistakes_stand_beside_their_fields(operator, cast):
    wrong = form(cast, name="node-1", uri="qemu:///system", driver="simulated", max_tasks="0")
    answer = operator.post(f"{NODES}/new", data=wrong)
    assert answer.status_code == 422
    assert 'id="wrong-max_tasks"' in answer.text
    answer = operator.post(f"{NODES}/new", data={**wrong, "max_tasks": "4"})
    assert 'id="wrong-name"' in answer.text
    answer = operator.post(f"{NODES}/new", data={**wrong, "max_tasks": "4", "name": "n"}, headers=PARTIAL_HEADERS)
    assert "begins with simulated://" in answer.text
    assert session.query(Hypervisor).count() == 1


def test_a_test_waits_for_a_newer_answer(operator, cast, run_tasks, monkeypatch):
    page = f"{NODES}/{cast.node.id}"
    answer = operator.post(f"{page}/test")
    watched = answer.headers["Location"]
    assert watched.startswith(f"{page}?since=")
    assert "Testing the connection" in operator.get(watched).text
    run_tasks()
    done = operator.get(watched).text
    assert "Connection successful" in done
    assert "every 15s" in done
    much_later = clock.now() + timedelta(minutes=5)
    monkeypatch.setattr(clock, "now", lambda: much_later)
    assert "Status is out of date" in operator.get(watched).text


@pytest.mark.parametrize("since", ["x", "nan", "1e400", "-1e30"])
def test_a_nonsense_moment_is_ignored(operator, cast, since):
    assert operator.get(f"{NODES}/{cast.node.id}?since={since}").status_code == 200


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("maintenance/on", "hypervisor_maintenance"),
        ("locked/on", "hypervisor_locked"),
        ("deploy_enabled/off", "hypervisor_deploy_disabled"),
    ],
)
def test_switches_close_and_open_it(operator, cast, node, flag, reason):
    answer = operator.post(f"{NODES}/{node.id}/switch/{flag}", headers=PARTIAL_HEADERS)
    assert (answer.status_code, answer.headers["HX-Trigger"]) == (200, "changed")
    assert node.unschedulable_reason == reason
    back = flag.replace("on", "off") if flag.endswith("on") else "deploy_enabled/on"
    assert operator.post(f"{NODES}/{node.id}/switch/{back}").status_code == 303
    assert node.unschedulable_reason is None
    assert operator.post(f"{NODES}/{node.id}/switch/status/on").status_code == 404


def test_settings_are_changed_together(operator, node):
    page = operator.get(f"{NODES}/{node.id}/edit").text
    assert 'value="simulated://"' in page
    changed = {"name": "node-x", "memory_overcommit": "2.5", "maintenance": ["false", "true"], "locked": "false"}
    assert operator.post(f"{NODES}/{node.id}/edit", data=changed).status_code == 303
    assert (node.name, node.memory_overcommit, node.maintenance, node.locked) == ("node-x", 2.5, True, False)
    answer = operator.post(f"{NODES}/{node.id}/edit", data={"name": ""}, headers=PARTIAL_HEADERS)
    assert answer.status_code == 303 or "HX-Redirect" in answer.headers
    assert node.name == "node-x"


def test_it_is_removed_only_when_it_is_empty(operator, cast, node):
    instance = cast.instance()
    page = operator.get(f"{NODES}/{node.id}").text
    assert "1 instance is on it. Destroy or migrate it first." in page
    refused = operator.post(f"{NODES}/{node.id}/delete")
    assert refused.status_code == 409
    assert "Destroy or move them first" in refused.text
    session.delete(session.merge(instance))
    session.commit()
    assert operator.post(f"{NODES}/{node.id}/delete").headers["Location"] == NODES
    assert session.get(Hypervisor, cast.node.id) is None


def test_why_guests_are_slow_and_who_else_is_there(operator, node):
    node.driver, node.acceleration_note = "libvirt", "/dev/kvm is broken here."
    node.unmanaged_machines = [{"id": "0199", "name": "old-build-server"}]
    session.commit()
    page = operator.get(f"{NODES}/{node.id}").text
    assert "/dev/kvm is broken here." in page
    assert "1 unmanaged VM" in page
    assert "old-build-server" in page


def test_its_instances(operator, cast):
    instance = cast.instance(display_name="Shop front")
    assert instance.id in operator.get(f"{NODES}/{cast.node.id}/instances").text


def test_storages_are_added_changed_and_removed(operator, node, run_tasks):
    page = f"{NODES}/{node.id}/storages/new"
    sent = {"hypervisor_id": node.id, "name": "ssd", "path": "/srv/ssd", "overcommit": "2"}
    assert 'id="wrong-path"' in operator.post(page, data={**sent, "path": "ssd"}).text
    assert operator.post(page, data=sent).status_code == 303
    run_tasks()
    storage = session.query(Storage).filter_by(name="ssd").one()
    assert storage.capacity > 0
    answer = operator.post(f"{NODES}/storages/{storage.id}", data={"overcommit": "1.5", "enabled": "false"})
    assert answer.status_code == 303
    assert (storage.overcommit, storage.enabled) == (1.5, False)
    assert "No new disks" in operator.get(f"{NODES}/{node.id}").text
    assert operator.post(f"{NODES}/storages/{storage.id}/delete").status_code == 303
    assert session.query(Storage).filter_by(name="ssd").count() == 0


def test_the_list_is_narrowed(operator, cast):
    other = hypervisors.create_group(name="other", display_name="Elsewhere")
    hypervisors.create(other, name="west-2", driver="simulated", uri="simulated://", storage_path="/srv/a")
    session.commit()
    shown = lambda query: re.findall(r'<tr id="hypervisor-', operator.get(f"{NODES}?{query}").text)  # noqa: E731
    assert [len(shown(q)) for q in ("", "search=west", "status=unknown", f"group={other.id}", "status=down")] == [
        2,
        1,
        1,
        1,
        0,
    ]


def test_a_location_is_added_with_its_plan_groups(operator, cast):
    sent = {"name": "hel1", "display_name": "Helsinki", "country": "FI", "enabled": ["false", "true"]}
    sent["plan_groups"] = ["", cast.plan.plan_group_id]
    assert operator.post(f"{PLACES}/new", data=sent).status_code == 303
    group = session.query(HypervisorGroup).filter_by(name="hel1").one()
    assert ([each.name for each in group.plan_groups], group.country) == (["standard"], "FI")
    page = operator.get(f"{PLACES}/{group.id}").text
    assert re.search(rf'value="{cast.plan.plan_group_id}" checked', page)
    answer = operator.post(f"{PLACES}/{group.id}", data={"plan_groups": "", "enabled": "false"})
    assert answer.status_code == 303
    assert (group.plan_groups, group.enabled, group.display_name) == ([], False, "Helsinki")
    assert operator.post(f"{PLACES}/{group.id}/delete").status_code == 303
    taken = operator.post(f"{PLACES}/new", data={"name": "lab"})
    assert (taken.status_code, 'id="wrong-name"' in taken.text) == (422, True)
    country = operator.post(f"{PLACES}/new", data={"name": "x", "country": "Germany"})
    assert 'id="wrong-country"' in country.text


def test_a_location_in_use_stays(operator, cast):
    refused = operator.post(f"{PLACES}/{cast.location.id}/delete")
    assert (refused.status_code, "Hypervisors belong" in refused.text) == (409, True)


@pytest.mark.parametrize("address", [NODES, PLACES])
def test_a_list_takes_the_same_queries_for_many_rows(operator, cast, queries, address):
    operator.get(address)
    queries.clear()
    operator.get(address)
    few = len(queries)
    for number in range(29):
        group = hypervisors.create_group(name=f"g{number}")
        hypervisors.create(group, name=f"n{number}", driver="simulated", uri="simulated://", storage_path="/srv/a")
    session.commit()
    queries.clear()
    assert operator.get(address).text.count('<tr id="') == 25
    assert len(queries) == few

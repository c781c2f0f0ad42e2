"""Hypervisors, storages and locations on the operators' pages."""

import re
from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, HypervisorGroup, Instance, Storage
from panel.services import hypervisors
from tests.support.html_pages import PARTIAL_HEADERS

HYPERVISORS_PATH, LOCATIONS_PATH = "/admin/hypervisors", "/admin/locations"


@pytest.fixture
def operator_browser(browser_as):
    return browser_as("admin")


@pytest.fixture
def hypervisor_row(cast):
    """The row of the cast's hypervisor, loaded in the test's session."""
    return session.get(Hypervisor, cast.node.id)


def build_hypervisor_form(cast, **values):
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


def test_new_hypervisor_page_refreshes_until_probed(operator_browser, cast, run_tasks):
    answer = operator_browser.post(f"{HYPERVISORS_PATH}/new", data=build_hypervisor_form(cast))
    assert answer.status_code == 303
    page = operator_browser.get(answer.headers["Location"]).text
    assert "Testing the connection" in page
    assert "every 1s" in page
    run_tasks()
    page = operator_browser.get(answer.headers["Location"], headers=PARTIAL_HEADERS).text
    assert "Testing the connection" not in page
    assert "every 15s" in page
    assert "0 of 96 cores" in page


@pytest.mark.parametrize("path", ["", "/instances", "/tasks", "/outages", "/orphans", "/edit"])
def test_hypervisor_tabs_show_number_of_instances(operator_browser, cast, path):
    session.get(Instance, cast.instance().id).hypervisor_id = cast.node.id
    session.commit()
    page = operator_browser.get(f"{HYPERVISORS_PATH}/{cast.node.id}{path}").text
    tab = page[page.index(f'href="{HYPERVISORS_PATH}/{cast.node.id}/instances"') :].partition("</a>")[0]
    assert re.findall(r">(\d+)<", tab) == ["1"]


def test_unreachable_hypervisor_page_shows_reason(operator_browser, cast, run_tasks):
    answer = operator_browser.post(
        f"{HYPERVISORS_PATH}/new", data=build_hypervisor_form(cast, uri="simulated://?cores=many")
    )
    run_tasks()
    page = operator_browser.get(answer.headers["Location"]).text
    assert "Not reachable" in page
    assert "cores=many" in page
    assert "cores=many" in operator_browser.get(HYPERVISORS_PATH).text


def test_form_errors_appear_at_fields(operator_browser, cast):
    wrong = build_hypervisor_form(cast, name="node-1", uri="qemu:///system", driver="simulated", max_tasks="0")
    answer = operator_browser.post(f"{HYPERVISORS_PATH}/new", data=wrong)
    assert answer.status_code == 422
    assert 'id="wrong-max_tasks"' in answer.text
    answer = operator_browser.post(f"{HYPERVISORS_PATH}/new", data={**wrong, "max_tasks": "4"})
    assert 'id="wrong-name"' in answer.text
    answer = operator_browser.post(
        f"{HYPERVISORS_PATH}/new", data={**wrong, "max_tasks": "4", "name": "n"}, headers=PARTIAL_HEADERS
    )
    assert "must start with simulated://" in answer.text
    assert session.query(Hypervisor).count() == 1


def test_connection_test_page_waits_for_new_result(operator_browser, cast, run_tasks, monkeypatch):
    page = f"{HYPERVISORS_PATH}/{cast.node.id}"
    answer = operator_browser.post(f"{page}/test")
    watched = answer.headers["Location"]
    assert watched.startswith(f"{page}?since=")
    assert "Testing the connection" in operator_browser.get(watched).text
    run_tasks()
    done = operator_browser.get(watched).text
    assert "Connection successful" in done
    assert "every 15s" in done
    much_later = clock.now() + timedelta(minutes=5)
    monkeypatch.setattr(clock, "now", lambda: much_later)
    assert "Status is out of date" in operator_browser.get(watched).text


@pytest.mark.parametrize("since", ["x", "nan", "1e400", "-1e30"])
def test_invalid_since_parameter_is_ignored(operator_browser, cast, since):
    assert operator_browser.get(f"{HYPERVISORS_PATH}/{cast.node.id}?since={since}").status_code == 200


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("maintenance/on", "hypervisor_maintenance"),
        ("locked/on", "hypervisor_locked"),
        ("deploy_enabled/off", "hypervisor_deploy_disabled"),
    ],
)
def test_hypervisor_switches_change_schedulability(operator_browser, cast, hypervisor_row, flag, reason):
    answer = operator_browser.post(f"{HYPERVISORS_PATH}/{hypervisor_row.id}/switch/{flag}", headers=PARTIAL_HEADERS)
    assert (answer.status_code, answer.headers["HX-Trigger"]) == (200, "changed")
    assert hypervisor_row.unschedulable_reason == reason
    back = flag.replace("on", "off") if flag.endswith("on") else "deploy_enabled/on"
    assert operator_browser.post(f"{HYPERVISORS_PATH}/{hypervisor_row.id}/switch/{back}").status_code == 303
    assert hypervisor_row.unschedulable_reason is None
    assert operator_browser.post(f"{HYPERVISORS_PATH}/{hypervisor_row.id}/switch/status/on").status_code == 404


def test_hypervisor_edit_form_saves_settings(operator_browser, hypervisor_row):
    page = operator_browser.get(f"{HYPERVISORS_PATH}/{hypervisor_row.id}/edit").text
    assert 'value="simulated://"' in page
    changed = {"name": "node-x", "memory_overcommit": "2.5", "maintenance": ["false", "true"], "locked": "false"}
    assert operator_browser.post(f"{HYPERVISORS_PATH}/{hypervisor_row.id}/edit", data=changed).status_code == 303
    assert (
        hypervisor_row.name,
        hypervisor_row.memory_overcommit,
        hypervisor_row.maintenance,
        hypervisor_row.locked,
    ) == ("node-x", 2.5, True, False)
    answer = operator_browser.post(
        f"{HYPERVISORS_PATH}/{hypervisor_row.id}/edit", data={"name": ""}, headers=PARTIAL_HEADERS
    )
    assert answer.status_code == 303 or "HX-Redirect" in answer.headers
    assert hypervisor_row.name == "node-x"


def test_hypervisor_deletion_requires_no_instances(operator_browser, cast, hypervisor_row):
    instance = cast.instance()
    page = operator_browser.get(f"{HYPERVISORS_PATH}/{hypervisor_row.id}").text
    assert "1 instance is on it. Destroy or migrate it first." in page
    refused = operator_browser.post(f"{HYPERVISORS_PATH}/{hypervisor_row.id}/delete")
    assert refused.status_code == 409
    assert "Destroy or move them first" in refused.text
    session.delete(session.merge(instance))
    session.commit()
    assert (
        operator_browser.post(f"{HYPERVISORS_PATH}/{hypervisor_row.id}/delete").headers["Location"] == HYPERVISORS_PATH
    )
    assert session.get(Hypervisor, cast.node.id) is None


def test_hypervisor_page_shows_acceleration_note_and_unmanaged_vms(operator_browser, hypervisor_row):
    hypervisor_row.driver, hypervisor_row.acceleration_note = "libvirt", "/dev/kvm is broken here."
    hypervisor_row.unmanaged_machines = [{"id": "0199", "name": "old-build-server"}]
    session.commit()
    page = operator_browser.get(f"{HYPERVISORS_PATH}/{hypervisor_row.id}").text
    assert "/dev/kvm is broken here." in page
    assert "1 unmanaged VM" in page
    assert "old-build-server" in page


def test_hypervisor_instances_page(operator_browser, cast):
    instance = cast.instance(display_name="Shop front")
    assert instance.id in operator_browser.get(f"{HYPERVISORS_PATH}/{cast.node.id}/instances").text


def test_storage_pages_create_to_delete(operator_browser, hypervisor_row, run_tasks):
    page = f"{HYPERVISORS_PATH}/{hypervisor_row.id}/storages/new"
    sent = {"hypervisor_id": hypervisor_row.id, "name": "ssd", "path": "/srv/ssd", "overcommit": "2"}
    assert 'id="wrong-path"' in operator_browser.post(page, data={**sent, "path": "ssd"}).text
    assert operator_browser.post(page, data=sent).status_code == 303
    run_tasks()
    storage = session.query(Storage).filter_by(name="ssd").one()
    assert storage.capacity > 0
    answer = operator_browser.post(
        f"{HYPERVISORS_PATH}/storages/{storage.id}", data={"overcommit": "1.5", "enabled": "false"}
    )
    assert answer.status_code == 303
    assert (storage.overcommit, storage.enabled) == (1.5, False)
    assert "No new disks" in operator_browser.get(f"{HYPERVISORS_PATH}/{hypervisor_row.id}").text
    assert operator_browser.post(f"{HYPERVISORS_PATH}/storages/{storage.id}/delete").status_code == 303
    assert session.query(Storage).filter_by(name="ssd").count() == 0


def test_hypervisor_list_page_filters(operator_browser, cast):
    other = hypervisors.create_group(name="other", display_name="Elsewhere")
    hypervisors.create(other, name="west-2", driver="simulated", uri="simulated://", storage_path="/srv/a")
    session.commit()
    shown = lambda query: re.findall(r'<tr id="hypervisor-', operator_browser.get(f"{HYPERVISORS_PATH}?{query}").text)  # noqa: E731
    assert [len(shown(q)) for q in ("", "search=west", "status=unknown", f"group={other.id}", "status=down")] == [
        2,
        1,
        1,
        1,
        0,
    ]


def test_location_pages_create_to_delete(operator_browser, cast):
    sent = {"name": "hel1", "display_name": "Helsinki", "country": "FI", "enabled": ["false", "true"]}
    sent["plan_groups"] = ["", cast.plan.plan_group_id]
    assert operator_browser.post(f"{LOCATIONS_PATH}/new", data=sent).status_code == 303
    group = session.query(HypervisorGroup).filter_by(name="hel1").one()
    assert ([plan_group.name for plan_group in group.plan_groups], group.country) == (["standard"], "FI")
    page = operator_browser.get(f"{LOCATIONS_PATH}/{group.id}").text
    assert re.search(rf'value="{cast.plan.plan_group_id}" checked', page)
    answer = operator_browser.post(f"{LOCATIONS_PATH}/{group.id}", data={"plan_groups": "", "enabled": "false"})
    assert answer.status_code == 303
    assert (group.plan_groups, group.enabled, group.display_name) == ([], False, "Helsinki")
    assert operator_browser.post(f"{LOCATIONS_PATH}/{group.id}/delete").status_code == 303
    taken = operator_browser.post(f"{LOCATIONS_PATH}/new", data={"name": "lab"})
    assert (taken.status_code, 'id="wrong-name"' in taken.text) == (422, True)
    country = operator_browser.post(f"{LOCATIONS_PATH}/new", data={"name": "x", "country": "Germany"})
    assert 'id="wrong-country"' in country.text


def test_location_in_use_is_not_deleted(operator_browser, cast):
    refused = operator_browser.post(f"{LOCATIONS_PATH}/{cast.location.id}/delete")
    assert (refused.status_code, "Hypervisors belong" in refused.text) == (409, True)


@pytest.mark.parametrize("address", [HYPERVISORS_PATH, LOCATIONS_PATH])
def test_list_query_count_is_constant(operator_browser, cast, queries, address):
    operator_browser.get(address)
    queries.clear()
    operator_browser.get(address)
    few = len(queries)
    for number in range(29):
        group = hypervisors.create_group(name=f"g{number}")
        hypervisors.create(group, name=f"n{number}", driver="simulated", uri="simulated://", storage_path="/srv/a")
    session.commit()
    queries.clear()
    assert operator_browser.get(address).text.count('<tr id="') == 25
    assert len(queries) == few


def test_hypervisor_page_query_count_does_not_depend_on_storages(operator_browser, cast, queries):
    def count_queries():
        session.expunge_all()
        queries.clear()
        assert operator_browser.get(address).text.count("/srv/s") == storage_count
        return len(queries)

    address, storage_count = f"{HYPERVISORS_PATH}/{cast.node.id}", 0
    count_queries()
    few = count_queries()
    for number in range(5):
        hypervisors.create_storage(hypervisors.get(cast.node.id), name=f"s{number}", path=f"/srv/s{number}")
    session.commit()
    storage_count = 5
    assert count_queries() == few

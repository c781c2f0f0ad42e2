"""Tags, and bulk actions: one result for each instance; a refusal does not block the others (OP-12)."""

import re
from html import unescape

import pytest

from panel.core.db import generate_id, session
from panel.models import AuditEntry, Task
from panel.services import instances
from tests.support.html_pages import PARTIAL_HEADERS

BULK_PATHS = (("owner", "/api/instances/bulk"), ("admin", "/api/v1/instances/bulk"))


@pytest.fixture
def running_instances(cast, node, run_tasks):
    """Three running instances of the owner."""
    created_instances = [cast.instance(display_name=f"m{number}") for number in range(3)]
    for instance in created_instances:
        instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    assert {instance.state for instance in created_instances} == {"running"}
    return created_instances


def list_ids(*rows):
    return [row.id for row in rows]


@pytest.mark.parametrize(("caller", "path"), BULK_PATHS)
def test_bulk_result_has_one_entry_per_instance(api_as, running_instances, run_tasks, caller, path):
    answer = api_as(caller, "POST", path, json={"ids": list_ids(*running_instances), "action": "poweroff"})
    assert answer.status_code == 200
    body = answer.json
    assert body["success"] is True
    assert (body["data"]["queued"], body["data"]["refused"]) == (3, 0)
    assert [line["id"] for line in body["data"]["results"]] == list_ids(*running_instances)
    assert all(line["success"] and line["status"] == 200 and "reason" not in line for line in body["data"]["results"])
    run_tasks()
    assert {instance.state for instance in running_instances} == {"stopped"}


@pytest.mark.parametrize(("caller", "path"), BULK_PATHS)
def test_bulk_refusal_does_not_block_other_instances(api_as, running_instances, run_tasks, caller, path):
    """The status is that of the first refusal; the other tasks are queued; there is no mapping header."""
    running_instances[1].protection_enabled = True
    session.commit()
    answer = api_as(caller, "POST", path, json={"ids": list_ids(*running_instances), "action": "destroy"})
    assert answer.status_code == 409
    assert "X-Failure-Status-Mapped" not in answer.headers
    body = answer.json
    assert body["success"] is False
    assert (body["data"]["queued"], body["data"]["refused"]) == (2, 1)
    line = body["data"]["results"][1]
    assert (line["status"], line["success"], line["reason"]) == (409, False, "protection_enabled")
    run_tasks()
    remaining_instances = api_as("owner", "GET", "/api/instances").json["data"]
    assert [row["id"] for row in remaining_instances] == [running_instances[1].id]


def test_bulk_partial_failure_is_audited(api_as, running_instances):
    running_instances[1].protection_enabled = True
    session.commit()
    api_as("owner", "POST", BULK_PATHS[0][1], json={"ids": list_ids(*running_instances), "action": "destroy"})
    assert session.query(AuditEntry).filter_by(action="user.instance.bulk").count() >= 1


def test_bulk_status_prefers_503():
    lines = [{"success": True, "status": 200}, {"success": False, "status": 409}, {"success": False, "status": 503}]
    assert instances.get_bulk_status(lines) == 503
    assert instances.get_bulk_status(lines[:2]) == 409
    assert instances.get_bulk_status(lines[:1]) == 200


@pytest.mark.parametrize(("caller", "path"), BULK_PATHS)
def test_bulk_noop_action_succeeds(api_as, running_instances, caller, path):
    body = api_as(caller, "POST", path, json={"ids": list_ids(running_instances[0]), "action": "start"}).json
    assert body["data"]["results"][0]["message"] == "Already running."
    assert body["success"] is True


@pytest.mark.parametrize(("caller", "path"), BULK_PATHS)
def test_bulk_ids_are_deduplicated_in_order(api_as, running_instances, caller, path):
    ids = list_ids(running_instances[2], running_instances[0], running_instances[2])
    body = api_as(caller, "POST", path, json={"ids": ids, "action": "restart"}).json
    assert [line["id"] for line in body["data"]["results"]] == ids[:2]


def test_bulk_ignores_foreign_ids(api_as, cast, running_instances):
    foreign = cast.instance("outsider")
    ids = [foreign.id, running_instances[0].id, generate_id()]
    body = api_as("owner", "POST", BULK_PATHS[0][1], json={"ids": ids, "action": "destroy"}).json
    assert [line["id"] for line in body["data"]["results"]] == [running_instances[0].id]
    answer = api_as("owner", "POST", BULK_PATHS[0][1], json={"ids": [foreign.id], "action": "destroy"})
    assert answer.status_code == 200
    assert answer.json["data"] == {"queued": 0, "refused": 0, "results": []}
    assert api_as("outsider", "GET", f"/api/instance/{foreign.id}").json["state"] == "pending"


def test_bulk_by_operator_reports_unknown_ids(api_as, running_instances):
    unknown = generate_id()
    answer = api_as(
        "admin", "POST", BULK_PATHS[1][1], json={"ids": [unknown, running_instances[0].id], "action": "suspend"}
    )
    assert answer.status_code == 404
    lines = answer.json["data"]["results"]
    assert (lines[0]["status"], lines[0]["reason"], lines[0]["name"]) == (404, "instance_not_found", None)
    assert lines[1]["success"] is True
    assert running_instances[0].state == "suspended"


def test_operator_suspends_and_resumes_in_bulk(api_as, running_instances, run_tasks):
    api_as("admin", "POST", BULK_PATHS[1][1], json={"ids": list_ids(*running_instances), "action": "suspend"})
    run_tasks()
    assert {instance.state for instance in running_instances} == {"suspended"}
    api_as("admin", "POST", BULK_PATHS[1][1], json={"ids": list_ids(*running_instances), "action": "unsuspend"})
    run_tasks()
    assert {instance.state for instance in running_instances} == {"running"}


@pytest.mark.parametrize(("caller", "path"), BULK_PATHS)
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"ids": [], "action": "start"},
        {"ids": "x", "action": "start"},
        {"ids": ["x"]},
        {"ids": ["x"], "action": "explode"},
        {"ids": ["x"], "action": "add_tag"},
        {"ids": ["x"], "action": "start", "tag": "prod"},
        {"ids": ["x"], "action": "add_tag", "tag": "no blanks"},
        {"ids": ["x"] * 501, "action": "start"},
    ],
)
def test_bulk_with_invalid_body_is_refused(api_as, cast, caller, path, wrong):
    assert api_as(caller, "POST", path, json=wrong).status_code == 422


def test_customer_cannot_suspend_in_bulk(api_as, running_instances):
    assert (
        api_as(
            "owner", "POST", BULK_PATHS[0][1], json={"ids": list_ids(*running_instances), "action": "suspend"}
        ).status_code
        == 422
    )


def test_bulk_action_requires_its_permission(api_as, running_instances):
    for action in ("start", "destroy"):
        answer = api_as(
            "viewer", "POST", BULK_PATHS[0][1], json={"ids": list_ids(*running_instances), "action": action}
        )
        assert answer.status_code == 403
        assert instances.ACTIONS[action].permission in answer.json["message"]


@pytest.mark.parametrize(
    ("sent", "expected_tags"),
    [
        ("prod, Web,prod", ["prod", "web"]),
        (["web", "prod"], ["prod", "web"]),
        ("", []),
        ([], []),
        ("eu/fra-1", ["eu/fra-1"]),
    ],
)
def test_tags_are_replaced(api_as, cast, sent, expected_tags):
    instance = cast.instance()
    instance.tags = ["old"]
    session.commit()
    answer = api_as("owner", "POST", f"/api/instance/{instance.id}/tags", json={"tags": sent})
    assert answer.json["instance"]["tags"] == expected_tags
    assert api_as("owner", "GET", "/api/instances").json["data"][0]["tags"] == expected_tags
    assert api_as("admin", "GET", f"/api/v1/instance/{instance.id}").json["data"]["tags"] == expected_tags


@pytest.mark.parametrize("wrong", [{}, {"tags": None}, {"tags": 5}, {"tags": ["no blanks"]}, {"tags": [5]}])
def test_invalid_tags_are_refused(api_as, cast, wrong):
    assert api_as("owner", "POST", f"/api/instance/{cast.instance().id}/tags", json=wrong).status_code == 422


def test_instance_has_at_most_20_tags(api_as, cast):
    instance = cast.instance()
    tags = [f"t{number}" for number in range(21)]
    assert api_as("owner", "POST", f"/api/instance/{instance.id}/tags", json={"tags": tags}).status_code == 422
    instances.set_tags(instance, sorted(tags[:20]))
    session.commit()
    answer = api_as("owner", "POST", BULK_PATHS[0][1], json={"ids": [instance.id], "action": "add_tag", "tag": "more"})
    assert (answer.status_code, answer.json["data"]["refused"]) == (422, 1)


def test_tags_of_other_account_are_not_found(api_as, cast):
    path = f"/api/instance/{cast.instance().id}/tags"
    assert api_as("outsider", "POST", path, json={"tags": "x"}).status_code == 404


@pytest.mark.parametrize(("caller", "path"), BULK_PATHS)
def test_bulk_adds_and_removes_tag(api_as, running_instances, caller, path):
    for action, expected_tags in (("add_tag", ["new"]), ("add_tag", ["new"]), ("remove_tag", [])):
        body = api_as(
            caller, "POST", path, json={"ids": list_ids(*running_instances), "action": action, "tag": "New"}
        ).json
        assert body["data"]["queued"] == 3
        assert all(instance.tags == expected_tags for instance in running_instances)


LIST_PAGES = (("owner", "/instances"), ("admin", "/admin/instances"))


@pytest.mark.parametrize(("caller", "path"), LIST_PAGES)
def test_bulk_page_runs_action_on_selected_instances(browser_as, running_instances, run_tasks, caller, path):
    browser = browser_as(caller)
    listed = browser.get(path).text
    assert f'name="ids" value="{running_instances[0].id}" form="bulk"' in listed
    page = browser.post(f"{path}/bulk", data={"ids": list_ids(*running_instances[:2]), "action": "poweroff", "tag": ""})
    assert page.status_code == 200
    assert "requested for 2 instances." in page.text
    run_tasks()
    assert [instance.state for instance in running_instances] == ["stopped", "stopped", "running"]


@pytest.mark.parametrize(("caller", "path"), LIST_PAGES)
def test_bulk_destroy_requires_typed_count(browser_as, running_instances, run_tasks, caller, path):
    running_instances[2].protection_enabled = True
    session.commit()
    browser = browser_as(caller)
    data = {"ids": list_ids(*running_instances), "action": "destroy"}
    page = browser.post(f"{path}/bulk", data=data).text
    assert "<strong>3</strong>" in page
    assert "Nothing was destroyed" not in page
    assert "Nothing was destroyed" in browser.post(f"{path}/bulk", data={**data, "typed": "2"}).text
    run_tasks()
    assert {instance.state for instance in running_instances} == {"running"}
    page = browser.post(f"{path}/bulk", data={**data, "typed": "3"}).text
    assert "Destroy requested for 2 instances. 1 refused." in page
    assert "Delete protection is on" in page
    run_tasks()
    page = browser.get(path).text
    assert ">m2<" in page
    assert ">m1<" not in page


def test_bulk_destroy_of_foreign_instances_is_refused(browser_as, cast):
    data = {"ids": [cast.instance("outsider").id], "action": "destroy"}
    answer = browser_as("owner").post("/instances/bulk", data=data)
    assert (answer.status_code, "no longer exist" in answer.text) == (422, True)


def test_bulk_panel_follows_tasks_to_their_end(browser_as, running_instances, run_tasks):
    form = {"ids": list_ids(*running_instances), "action": "restart"}
    panel = browser_as("owner").post("/instances/bulk", data=form, headers=PARTIAL_HEADERS)
    assert panel.headers["HX-Trigger"] == "changed"
    assert "Restart requested for 3 instances." in panel.text
    assert "0 of 3 finished" in panel.text
    url = unescape(re.search('hx-get="(/tasks/follow[^"]*)"', panel.text)[1])
    assert "m0" not in browser_as("outsider").get(url).text
    run_tasks()
    answer = browser_as("owner").get(url)
    assert "3 of 3 finished" in answer.text
    assert "hx-get" not in answer.text
    assert browser_as("admin").get(f"/admin{url}").text.count("<li") == 3
    assert browser_as("owner").get("/tasks/follow?ids=nothing.0199").text.count("<li") == 0


def test_bulk_panel_follows_only_its_own_tasks(browser_as, cast, running_instances):
    first, second, _third = running_instances
    earlier = Task(id=generate_id(), kind="firewall_apply", resource_type="instance", resource_id=first.id)
    earlier.account_id, earlier.lock = cast.owner.id, "light"
    session.add(earlier)
    session.commit()
    form = {"ids": list_ids(first, second), "action": "restart"}
    panel = browser_as("owner").post("/instances/bulk", data=form, headers=PARTIAL_HEADERS).text
    assert "0 of 2 finished" in panel
    assert earlier.id not in panel


@pytest.mark.parametrize(("caller", "path"), [("owner", "/instances"), ("admin", "/admin/instances")])
def test_address_of_bulk_results_redirects_to_list(browser_as, caller, path):
    answer = browser_as(caller).get(f"{path}/bulk")
    assert (answer.status_code, answer.headers["Location"]) == (303, path)


@pytest.mark.parametrize(("caller", "path"), LIST_PAGES)
def test_bulk_page_without_selection_shows_error(browser_as, running_instances, caller, path):
    answer = browser_as(caller).post(f"{path}/bulk", data={"action": "start"})
    assert answer.status_code == 422
    assert "Select at least one" in answer.text


def test_bulk_page_requires_permission(browser_as, running_instances):
    data = {"ids": list_ids(*running_instances), "action": "start"}
    assert browser_as("viewer").post("/instances/bulk", data=data).status_code == 403
    assert browser_as("owner").post("/admin/instances/bulk", data=data).status_code == 403


def test_tags_are_shown_and_edited(browser_as, cast):
    instance = cast.instance()
    browser = browser_as("owner")
    assert browser.post(f"/instances/{instance.id}/tags", data={"tags": "prod, web"}).status_code == 303
    assert instance.tags == ["prod", "web"]
    for path in ("/instances", f"/instances/{instance.id}"):
        assert 'href="/instances?search=tag:prod"' in browser.get(path).text
    assert 'href="/admin/instances?search=tag:prod"' in browser_as("admin").get("/admin/instances").text
    assert browser.post(f"/instances/{instance.id}/tags", data={"tags": "not a tag!"}).status_code == 422
    assert browser.post(f"/instances/{instance.id}/tags", data={"tags": ""}).status_code == 303
    assert instance.tags == []

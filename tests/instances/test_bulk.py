"""Tags, and one action on many instances: a line for each, and what is refused holds up no other (OP-12)."""

import pytest

from panel.core.db import new_id, session
from panel.models import AuditEntry
from panel.services import instances

BULK_PATHS = (("owner", "/api/instances/bulk"), ("admin", "/api/v1/instances/bulk"))


@pytest.fixture
def fleet(cast, node, run_tasks):
    """Three machines that run."""
    made = [cast.instance(display_name=f"m{number}") for number in range(3)]
    for instance in made:
        instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    assert {instance.state for instance in made} == {"running"}
    return made


def ids(*rows):
    return [row.id for row in rows]


@pytest.mark.parametrize(("who", "path"), BULK_PATHS)
def test_every_instance_has_a_line(api_as, fleet, run_tasks, who, path):
    answer = api_as(who, "POST", path, json={"ids": ids(*fleet), "action": "poweroff"})
    assert answer.status_code == 200
    body = answer.json
    assert body["success"] is True
    assert (body["data"]["queued"], body["data"]["refused"]) == (3, 0)
    assert [line["id"] for line in body["data"]["results"]] == ids(*fleet)
    assert all(line["success"] and line["status"] == 200 and "reason" not in line for line in body["data"]["results"])
    run_tasks()
    assert {instance.state for instance in fleet} == {"stopped"}


@pytest.mark.parametrize(("who", "path"), BULK_PATHS)
def test_what_is_refused_holds_up_no_other(api_as, fleet, run_tasks, who, path):
    """The status is the first refusal's; good rows are kept all the same, and no mapping is told of (4.1, 4.9)."""
    fleet[1].protection_enabled = True
    session.commit()
    answer = api_as(who, "POST", path, json={"ids": ids(*fleet), "action": "destroy"})
    assert answer.status_code == 409
    assert "X-Failure-Status-Mapped" not in answer.headers
    body = answer.json
    assert body["success"] is False
    assert (body["data"]["queued"], body["data"]["refused"]) == (2, 1)
    line = body["data"]["results"][1]
    assert (line["status"], line["success"], line["reason"]) == (409, False, "protection_enabled")
    run_tasks()
    left = api_as("owner", "GET", "/api/instances").json["data"]
    assert [row["id"] for row in left] == [fleet[1].id]


def test_a_mixed_call_is_in_the_audit_log(api_as, fleet):
    fleet[1].protection_enabled = True
    session.commit()
    api_as("owner", "POST", BULK_PATHS[0][1], json={"ids": ids(*fleet), "action": "destroy"})
    assert session.query(AuditEntry).filter_by(action="user.instance.bulk").count() >= 1


def test_a_later_503_wins():
    lines = [{"success": True, "status": 200}, {"success": False, "status": 409}, {"success": False, "status": 503}]
    assert instances.bulk_result_status(lines) == 503
    assert instances.bulk_result_status(lines[:2]) == 409
    assert instances.bulk_result_status(lines[:1]) == 200


@pytest.mark.parametrize(("who", "path"), BULK_PATHS)
def test_what_is_so_already_is_no_failure(api_as, fleet, who, path):
    body = api_as(who, "POST", path, json={"ids": ids(fleet[0]), "action": "start"}).json
    assert body["data"]["results"][0]["message"] == "Already running."
    assert body["success"] is True


@pytest.mark.parametrize(("who", "path"), BULK_PATHS)
def test_ids_count_once_in_their_order(api_as, fleet, who, path):
    wanted = ids(fleet[2], fleet[0], fleet[2])
    body = api_as(who, "POST", path, json={"ids": wanted, "action": "restart"}).json
    assert [line["id"] for line in body["data"]["results"]] == wanted[:2]


def test_foreign_ids_are_left_out(api_as, cast, fleet):
    foreign = cast.instance("outsider")
    wanted = [foreign.id, fleet[0].id, new_id()]
    body = api_as("owner", "POST", BULK_PATHS[0][1], json={"ids": wanted, "action": "destroy"}).json
    assert [line["id"] for line in body["data"]["results"]] == [fleet[0].id]
    answer = api_as("owner", "POST", BULK_PATHS[0][1], json={"ids": [foreign.id], "action": "destroy"})
    assert answer.status_code == 200
    assert answer.json["data"] == {"queued": 0, "refused": 0, "results": []}
    assert api_as("outsider", "GET", f"/api/instance/{foreign.id}").json["state"] == "pending"


def test_operators_are_told_of_unknown_ids(api_as, fleet):
    unknown = new_id()
    answer = api_as("admin", "POST", BULK_PATHS[1][1], json={"ids": [unknown, fleet[0].id], "action": "suspend"})
    assert answer.status_code == 404
    lines = answer.json["data"]["results"]
    assert (lines[0]["status"], lines[0]["reason"], lines[0]["name"]) == (404, "instance_not_found", None)
    assert lines[1]["success"] is True
    assert fleet[0].state == "suspended"


def test_operators_suspend_and_resume_many(api_as, fleet, run_tasks):
    api_as("admin", "POST", BULK_PATHS[1][1], json={"ids": ids(*fleet), "action": "suspend"})
    run_tasks()
    assert {instance.state for instance in fleet} == {"suspended"}
    api_as("admin", "POST", BULK_PATHS[1][1], json={"ids": ids(*fleet), "action": "unsuspend"})
    run_tasks()
    assert {instance.state for instance in fleet} == {"running"}


@pytest.mark.parametrize(("who", "path"), BULK_PATHS)
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
def test_nonsense_is_refused(api_as, cast, who, path, wrong):
    assert api_as(who, "POST", path, json=wrong).status_code == 422


def test_customers_do_not_suspend(api_as, fleet):
    assert api_as("owner", "POST", BULK_PATHS[0][1], json={"ids": ids(*fleet), "action": "suspend"}).status_code == 422


def test_each_action_needs_its_permission(api_as, fleet):
    for action in ("start", "destroy"):
        answer = api_as("viewer", "POST", BULK_PATHS[0][1], json={"ids": ids(*fleet), "action": action})
        assert answer.status_code == 403
        assert instances.ACTIONS[action].permission in answer.json["message"]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("prod, Web,prod", ["prod", "web"]),
        (["web", "prod"], ["prod", "web"]),
        ("", []),
        ([], []),
        ("eu/fra-1", ["eu/fra-1"]),
    ],
)
def test_tags_are_replaced(api_as, cast, sent, kept):
    instance = cast.instance()
    instance.tags = ["old"]
    session.commit()
    answer = api_as("owner", "POST", f"/api/instance/{instance.id}/tags", json={"tags": sent})
    assert answer.json["instance"]["tags"] == kept
    assert api_as("owner", "GET", "/api/instances").json["data"][0]["tags"] == kept
    assert api_as("admin", "GET", f"/api/v1/instance/{instance.id}").json["data"]["tags"] == kept


@pytest.mark.parametrize("wrong", [{}, {"tags": None}, {"tags": 5}, {"tags": ["no blanks"]}, {"tags": [5]}])
def test_tags_that_are_none(api_as, cast, wrong):
    assert api_as("owner", "POST", f"/api/instance/{cast.instance().id}/tags", json=wrong).status_code == 422


def test_an_instance_has_not_too_many_tags(api_as, cast):
    instance = cast.instance()
    tags = [f"t{number}" for number in range(21)]
    assert api_as("owner", "POST", f"/api/instance/{instance.id}/tags", json={"tags": tags}).status_code == 422
    instances.set_tags(instance, sorted(tags[:20]))
    session.commit()
    answer = api_as("owner", "POST", BULK_PATHS[0][1], json={"ids": [instance.id], "action": "add_tag", "tag": "more"})
    assert (answer.status_code, answer.json["data"]["refused"]) == (422, 1)


def test_tags_of_others_are_not_found(api_as, cast):
    path = f"/api/instance/{cast.instance().id}/tags"
    assert api_as("outsider", "POST", path, json={"tags": "x"}).status_code == 404


@pytest.mark.parametrize(("who", "path"), BULK_PATHS)
def test_many_are_tagged_at_once(api_as, fleet, who, path):
    for action, kept in (("add_tag", ["new"]), ("add_tag", ["new"]), ("remove_tag", [])):
        body = api_as(who, "POST", path, json={"ids": ids(*fleet), "action": action, "tag": "New"}).json
        assert body["data"]["queued"] == 3
        assert all(instance.tags == kept for instance in fleet)


PAGES = (("owner", "/instances"), ("admin", "/admin/instances"))


@pytest.mark.parametrize(("who", "path"), PAGES)
def test_ticked_rows_have_a_bar(browser_as, fleet, run_tasks, who, path):
    browser = browser_as(who)
    listed = browser.get(path).text
    assert f'name="ids" value="{fleet[0].id}" form="bulk"' in listed
    page = browser.post(f"{path}/bulk", data={"ids": ids(*fleet[:2]), "action": "poweroff", "tag": ""})
    assert page.status_code == 200
    assert "requested for 2 instances." in page.text
    run_tasks()
    assert [instance.state for instance in fleet] == ["stopped", "stopped", "running"]


@pytest.mark.parametrize(("who", "path"), PAGES)
def test_destroying_many_needs_the_number(browser_as, fleet, run_tasks, who, path):
    fleet[2].protection_enabled = True
    session.commit()
    browser = browser_as(who)
    data = {"ids": ids(*fleet), "action": "destroy"}
    page = browser.post(f"{path}/bulk", data=data).text
    assert "<strong>3</strong>" in page
    assert "Nothing was destroyed" not in page
    assert "Nothing was destroyed" in browser.post(f"{path}/bulk", data={**data, "typed": "2"}).text
    run_tasks()
    assert {instance.state for instance in fleet} == {"running"}
    page = browser.post(f"{path}/bulk", data={**data, "typed": "3"}).text
    assert "Destroy requested for 2 instances. 1 refused." in page
    assert "Delete protection is on" in page
    run_tasks()
    assert "m2" in browser.get(path).text
    assert "m1" not in browser.get(path).text


@pytest.mark.parametrize(("who", "path"), PAGES)
def test_nothing_ticked_says_so(browser_as, fleet, who, path):
    answer = browser_as(who).post(f"{path}/bulk", data={"action": "start"})
    assert answer.status_code == 422
    assert "Select at least one" in answer.text


def test_the_bar_is_for_who_may(browser_as, fleet):
    data = {"ids": ids(*fleet), "action": "start"}
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

"""Pages of backup policies: the list, the form with its simulation, and the instances of one."""

import re

import pytest

from panel.core.db import session
from panel.models import BackupPolicy, BackupPolicyInstance
from panel.services import instances
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline
from tests.support.team import add_member  # noqa: F401  (fixture)

FORM = {
    "name": "nightly",
    "full_backup_frequency": "daily",
    "full_backup_day": "1",
    "full_backup_time": "02:30",
    "max_incremental_chain": "7",
    "backup_device": "all",
    "retention_mode": "count",
    "retention_count": "5",
    "keep_last": "0",
    "keep_within_days": "",
    "keep_daily": "7",
    "keep_weekly": "4",
    "keep_monthly": "6",
    "keep_yearly": "0",
}
GFS = {"retention_mode": "gfs"}


@pytest.fixture
def browser(browser_as):
    return browser_as("owner")


def read(page):
    assert page.status_code == 200, page.text
    return re.sub(r"\s+", " ", re.sub(r"<(script|svg).*?</\1>|<[^>]+>", " ", page.text, flags=re.DOTALL))


def read_simulation(page):
    """Return {time: number of backups kept} of the preview."""
    rows = re.findall(r'class="name-cell">([^<]+)</td>\s*<td[^>]*Backups kept[^>]*>(\d+)<', page.text)
    return {label: int(count) for label, count in rows}


def test_policy_is_created_for_the_time_zone_of_the_account(browser, cast):
    cast.owner.timezone = "Asia/Tokyo"
    session.commit()
    assert "Time zone: Asia/Tokyo" in read(browser.get("/backup-policies/new"))
    answer = browser.post("/backup-policies/new", data=FORM)
    policy = session.query(BackupPolicy).one()
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/backup-policies/{policy.id}")
    assert (policy.timezone, f"{policy.next_run_at:%H:%M}") == ("Asia/Tokyo", "17:30")
    assert (policy.full_backup_day, policy.retention_count, policy.keep_daily) == (None, 5, 0), (
        "of the chosen mode only"
    )
    text = read(browser.get("/backup-policies"))
    for part in ("nightly", "Active", "Daily at 02:30", "5 newest backups", "no instances"):
        assert part in text


def test_policy_is_edited_and_deleted(browser, create_policy):
    policy = create_policy(name="old")
    path = f"/backup-policies/{policy['id']}"
    assert 'value="old"' in browser.get(f"{path}/edit").text
    sent = FORM | GFS | {"full_backup_frequency": "weekly"}
    assert browser.post(f"{path}/edit", data=sent).headers["Location"] == path
    text = read(browser.get(path))
    for part in ("nightly", "Mondays at 02:30", "7 daily, 4 weekly, 6 monthly"):
        assert part in text
    row = session.query(BackupPolicy).one()
    assert (row.retention_count, row.full_backup_day, row.keep_within_days) == (None, 1, 0)
    assert browser.post(f"{path}/delete").headers["Location"] == "/backup-policies"
    assert "No backup policy yet" in read(browser.get("/backup-policies"))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"full_backup_time": "25:00"}, "full_backup_time"),
        ({"full_backup_frequency": "weekly", "full_backup_day": ""}, "full_backup_day"),
        ({"retention_count": ""}, "retention_count"),
        ({"retention_count": "366"}, "retention_count"),
        (GFS | {"keep_daily": "0", "keep_weekly": "0", "keep_monthly": ""}, "keep_last"),
    ],
)
def test_wrong_field_is_named(browser, create_policy, changes, field):
    policy = create_policy()
    for path in ("/backup-policies/new", f"/backup-policies/{policy['id']}/edit"):
        answer = browser.post(path, data=FORM | changes)
        assert answer.status_code == 422, path
        assert re.findall(r'id="wrong-(\w+)"', answer.text) == [field]
    assert session.query(BackupPolicy).one().name == "p"


def test_form_simulates_retention(browser, create_policy):
    page = browser.get("/backup-policies/new")
    assert read_simulation(page) == dict.fromkeys(("1 week", "30 days", "90 days", "180 days", "1 year"), 7)
    policy = create_policy(retention_count=3)
    path = f"/backup-policies/{policy['id']}"
    assert set(read_simulation(browser.get(path)).values()) == {3}
    for address in ("/backup-policies/new", f"{path}/edit"):
        sent = FORM | {"preview": "1", "name": "", "retention_count": "20"}
        part = browser.post(address, data=sent, headers=PARTIAL_HEADERS)
        assert part.text.startswith('<section class="card mb-3" id="simulation"')
        assert read_simulation(part) == {"1 week": 7, "30 days": 20, "90 days": 20, "180 days": 20, "1 year": 20}
        assert len(re.findall(r"\(20 backups\)", part.text)) == 1
        wrong = browser.post(address, data=FORM | {"preview": "1", "retention_count": "0"}, headers=PARTIAL_HEADERS)
        assert "Correct the form to see the preview: Number of backups: Enter a number from 1 to 365." in read(wrong)
        page = browser.post(address, data=FORM | GFS | {"preview": "1"})
        assert page.text.startswith("<!doctype html>")
        assert 'value="nightly"' in page.text
        outline = HtmlOutline(page.text)
        assert outline.open == []
        assert len(outline.ids) == len(set(outline.ids))
    row = session.query(BackupPolicy).one()
    assert (row.name, row.retention_count) == ("p", 3), "a preview stores nothing"


def test_instances_are_attached_and_detached(browser, create_policy, cast):
    policy = create_policy()
    path = f"/backup-policies/{policy['id']}"
    names = ("Shop", "Payroll", "Blog")
    shop, payroll, blog = (cast.instance(display_name=name).id for name in names)
    assert browser.post(f"{path}/attach", data={"instance_ids": [shop, payroll]}).status_code == 303
    page = browser.get(path)
    assert re.findall(r'name="instance_ids" value="([^"]+)"', page.text) == [payroll, shop, blog]
    assert ">2</td>" in browser.get("/backup-policies").text
    other = create_policy(name="other")
    assert browser.post(f"/backup-policies/{other['id']}/attach", data={"instance_ids": [shop]}).status_code == 409
    assert browser.post(f"{path}/detach", data={"instance_ids": [shop, payroll]}).status_code == 303
    assert session.query(BackupPolicyInstance).count() == 0
    assert browser.post(f"{path}/detach", data={"instance_ids": [shop]}).status_code == 409
    browser.post(f"{path}/attach")
    assert "Select an instance first." in browser.get(path).text


def test_failures_are_shown_and_cleared(browser, create_policy):
    policy = create_policy()
    row = session.get(BackupPolicy, policy["id"])
    row.failures, row.last_error = 2, "Shop: The storage was away."
    session.commit()
    path = f"/backup-policies/{policy['id']}"
    for part in ("2 failed backups", "Shop: The storage was away.", "Clear failures"):
        assert part in read(browser.get(path))
    assert "2 failed backups" in read(browser.get("/backup-policies"))
    assert browser.post(f"{path}/reset-failures").status_code == 303
    assert "Clear failures" not in browser.get(path).text


def test_list_takes_constant_number_of_queries(browser, create_policy, cast, queries):
    def count_queries():
        queries.clear()
        assert browser.get("/backup-policies").status_code == 200
        return len(queries)

    create_policy()
    few = count_queries()
    for number in range(8):
        policy = create_policy(name=f"p{number}")
        session.add(BackupPolicyInstance(policy_id=policy["id"], instance_id=cast.instance().id))
    session.commit()
    assert count_queries() == few


def test_policies_of_others_are_not_found(browser_as, create_policy, cast):
    provided = create_policy(caller="admin", name="provided")
    own = create_policy(name="own")
    foreign = cast.instance("outsider")
    for caller, policy in (("outsider", own), ("owner", provided)):
        browser, path = browser_as(caller), f"/backup-policies/{policy['id']}"
        assert policy["name"] not in read(browser.get("/backup-policies"))
        for action in ("", "/edit"):
            assert browser.get(f"{path}{action}").status_code == 404
        for action in ("edit", "attach", "detach", "reset-failures", "delete"):
            assert browser.post(f"{path}/{action}", data=FORM).status_code == 404, action
    answer = browser_as("owner").post(f"/backup-policies/{own['id']}/attach", data={"instance_ids": [foreign.id]})
    assert answer.status_code == 404
    assert session.query(BackupPolicyInstance).count() == 0


def test_limited_member_attaches_own_instances_only(browser_as, add_member, create_policy, cast):
    granted, hidden = cast.instance(display_name="Shop"), cast.instance(display_name="Payroll")
    allowed = ["instances.view", "backup_policies.view", "backup_policies.manage"]
    add_member("limited", allowed, "chosen", grants=[granted])
    policy = create_policy()
    browser, path = browser_as("limited"), f"/backup-policies/{policy['id']}"
    session.add(BackupPolicyInstance(policy_id=policy["id"], instance_id=hidden.id))
    session.commit()
    text = read(browser.get(path))
    assert "Shop" in text
    assert "Payroll" not in text
    assert ">0</td>" in browser.get("/backup-policies").text, "counts what the member sees"
    for action in ("attach", "detach"):
        assert browser.post(f"{path}/{action}", data={"instance_ids": [hidden.id]}).status_code == 404
    assert browser.post(f"{path}/attach", data={"instance_ids": [granted.id]}).status_code == 303
    assert browser.post(f"{path}/delete").status_code == 403


def test_viewer_changes_nothing(browser_as, create_policy):
    policy = create_policy()
    browser, path = browser_as("viewer"), f"/backup-policies/{policy['id']}"
    assert "needs backup_policies.manage" in read(browser.get(path))
    for address in ("/backup-policies/new", f"{path}/edit"):
        assert browser.get(address).status_code == 403
        assert browser.post(address, data=FORM).status_code == 403
    for action, permission in (
        ("attach", "manage"),
        ("detach", "manage"),
        ("reset-failures", "manage"),
        ("delete", ""),
    ):
        answer = browser.post(f"{path}/{action}")
        assert (answer.status_code, f"backup_policies.{permission}" in answer.text) == (403, True)


def test_member_without_instances_sees_no_names(browser_as, add_member, create_policy, cast):
    add_member("planner", ["backup_policies.view"], "all")
    policy = create_policy()
    cast.instance(display_name="Payroll")
    text = read(browser_as("planner").get(f"/backup-policies/{policy['id']}"))
    assert "Payroll" not in text
    assert "needs instances.view" in text


def test_destroyed_instance_leaves_the_policy(browser, create_policy, cast, run_tasks):
    policy = create_policy()
    instance = cast.instance(display_name="Payroll")
    browser.post(f"/backup-policies/{policy['id']}/attach", data={"instance_ids": [instance.id]})
    instances.destroy(instance, actor="test")
    session.commit()
    run_tasks()
    assert "No instance is attached to this policy." in read(browser.get(f"/backup-policies/{policy['id']}"))

"""Pages of backups: the tab of an instance, the list of all, restore, images, deletion."""

import re

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Image, InstanceBackup, Task
from panel.schemas.backup_policies import DEFAULTS
from panel.services import backup_destinations, backup_policies, projects
from tests.support.cast import UNKNOWN_ID
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline
from tests.support.team import add_member  # noqa: F401  (fixture)

POLICY_VALUES = DEFAULTS | {"retention_count": 3}
ACTIONS = (
    ("GET", "restore"),
    ("POST", "restore"),
    ("GET", "image"),
    ("POST", "image"),
    ("POST", "protection/on"),
    ("POST", "delete"),
    ("POST", "retry"),
)


@pytest.fixture
def browser(browser_as):
    return browser_as("owner")


@pytest.fixture
def tab(machine):
    return f"/instances/{machine.id}/backups"


def read(page):
    """Return the visible text of a page."""
    assert page.status_code == 200, page.text
    return re.sub(r"\s+", " ", re.sub(r"<(script|svg).*?</\1>|<[^>]+>", " ", page.text, flags=re.DOTALL))


def find_row(page, row_id):
    return re.search(rf'<tr id="backup-{row_id}">.*?</tr>', page.text, re.DOTALL)[0]


def test_backup_is_requested_and_shown(browser, tab, destination, machine, run_tasks):
    assert "No backup yet" in read(browser.get(tab))
    answer = browser.post(tab, data={"name": "before the upgrade", "backup_type": "incremental"})
    assert (answer.status_code, answer.headers["Location"]) == (303, tab)
    page = browser.get(tab)
    assert "Backup requested." in page.text
    assert "Queued" in page.text
    assert re.search(r"disabled>.{0,400}Back up now", page.text, re.DOTALL), "one is in progress"
    run_tasks()
    [backup] = session.query(InstanceBackup).all()
    page = browser.get(tab)
    row = find_row(page, backup.id)
    for text in ("before the upgrade", "Complete", "Full", "First backup", "Consistent", "File systems frozen", "read"):
        assert text in row, text
    outline = HtmlOutline(page.text)
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))


def test_backup_form_names_wrong_field(browser, tab, destination):
    answer = browser.post(tab, data={"name": "\u202e", "backup_type": ""})
    assert answer.status_code == 422
    assert 'id="wrong-name"' in answer.text


def test_tab_gives_reason_when_no_backup_is_possible(browser, tab, machine, cast):
    assert "Backups are not available in this location." in read(browser.get(tab))
    assert browser.post(tab, data={"name": ""}).status_code == 409
    new = cast.instance()
    assert "Deploy an image first." in read(browser.get(f"/instances/{new.id}/backups"))
    machine.suspended_reason = "admin"
    session.commit()
    assert "The instance is suspended." in read(browser.get(tab))


def test_row_says_what_is_true(browser, tab, machine, destination, add_row):
    creating = add_row("c", instance_id=machine.id, status="creating")
    task = Task(kind="backup_create", resource_type="instance", resource_id=machine.id, account_id=machine.account_id)
    task.status, task.stage, task.progress, task.arguments = "running", "Reading", 40, {"backup_id": creating.id}
    session.add(task)
    failed = add_row("f", instance_id=machine.id, status="failed", error="The disk was away.")
    lost = add_row("l", instance_id=machine.id, delete_claimed_at=clock.now())
    crash = add_row("x", instance_id=machine.id, consistency="crash", chain_reason="no_checkpoint", protected=True)
    damaged = add_row("d", instance_id=machine.id, damaged=True)
    session.commit()
    page = browser.get(tab)
    expected = {
        damaged: ("Damaged", "Create a new backup."),
        creating: ("Backing up", "40 %", "Reading"),
        failed: ("Failed", "The disk was away.", "Try again"),
        lost: ("Deletion not confirmed",),
        crash: ("Crash-consistent", "As after a power failure", "Changes not known", "Protected"),
    }
    for backup, texts in expected.items():
        row = find_row(page, backup.id)
        assert [text for text in texts if text not in row] == []
    assert 'hx-trigger="live, changed from:document, every 2s"' in browser.get("/backups").text
    assert "Remove the protection first." in find_row(page, crash.id)
    assert f'action="/backups/{creating.id}/delete"' not in page.text
    assert "This backup is damaged" in browser.get(f"/backups/{damaged.id}/restore").text


def test_failed_backup_is_tried_again(browser, machine, destination, add_row, run_tasks):
    failed = add_row("nightly", instance_id=machine.id, status="failed", backup_type="incremental")
    assert browser.post(f"/backups/{failed.id}/retry").status_code == 303
    run_tasks()
    newest = session.query(InstanceBackup).order_by(InstanceBackup.id.desc()).first()
    assert (newest.name, newest.status) == ("nightly", "complete")
    assert browser.post(f"/backups/{newest.id}/retry").status_code == 422, "it has not failed"


def test_restore_asks_for_the_name(browser, back_up, guest, machine, run_tasks, tab):
    guest.write("before")
    backup = back_up()
    guest.write("after")
    page = browser.get(f"/backups/{backup['id']}/restore")
    for text in ("1 disk", "the instance is powered off and the current disks are replaced", machine.display_name):
        assert text in read(page)
    refused = browser.post(f"/backups/{backup['id']}/restore", data={"typed": "something else"})
    assert (refused.status_code, "The name does not match." in refused.text) == (422, True)
    assert session.query(Task).filter_by(kind="backup_restore").count() == 0
    answer = browser.post(f"/backups/{backup['id']}/restore", data={"typed": machine.display_name})
    assert (answer.status_code, answer.headers["Location"]) == (303, tab)
    assert "Restore requested." in browser.get(tab).text
    run_tasks()
    assert guest.read() == "before"


def test_restore_offers_single_disks(browser, back_up, second_disk, machine):
    backup = back_up()
    assert f'<option value="{second_disk.id}">' in browser.get(f"/backups/{backup['id']}/restore").text
    sent = {"typed": machine.display_name, "target_disk_id": second_disk.id}
    assert browser.post(f"/backups/{backup['id']}/restore", data=sent).status_code == 303
    [task] = session.query(Task).filter_by(kind="backup_restore").all()
    assert list(task.arguments["disks"]) == [second_disk.id]


def test_restore_gives_reason_when_it_is_not_possible(browser, back_up, machine, node, cast):
    backup = back_up()
    cast.node.status = "down"
    session.commit()
    page = browser.get(f"/backups/{backup['id']}/restore")
    assert "The hypervisor of the instance does not respond." in read(page)
    assert re.search(r'id="restore" aria-disabled="true"', page.text)
    refused = browser.post(f"/backups/{backup['id']}/restore", data={"typed": machine.display_name})
    assert refused.status_code == 503


def test_image_is_created_from_a_backup(browser, back_up, machine, run_tasks):
    backup = back_up()
    assert backup["name"] in read(browser.get(f"/backups/{backup['id']}/image"))
    assert browser.post(f"/backups/{backup['id']}/image", data={"name": ""}).status_code == 422
    answer = browser.post(f"/backups/{backup['id']}/image", data={"name": "Shop 1"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/images")
    run_tasks()
    assert session.query(Image).filter_by(name="Shop 1").one().status == "available"


def test_protected_backup_is_not_deleted(browser, back_up, find_backup, tab):
    backup = back_up()
    assert browser.post(f"/backups/{backup['id']}/protection/on").headers["Location"] == tab
    assert find_backup(backup).protected
    assert browser.post(f"/backups/{backup['id']}/delete").status_code == 409
    browser.post(f"/backups/{backup['id']}/protection/off")
    assert browser.post(f"/backups/{backup['id']}/delete").headers["Location"] == tab
    assert find_backup(backup) is None


def test_selected_backups_are_deleted(browser, back_up, find_backup, machine, tab):
    first, second, third = (back_up(name=name) for name in ("first", "second", "third"))
    browser.post(f"/backups/{second['id']}/protection/on")
    sent = {"ids": [first["id"], second["id"], UNKNOWN_ID], "instance_id": machine.id}
    page = browser.post("/backups/delete", data=sent)
    text = read(page)
    for part in ("Deletion requested for 1 backup.", "1 refused.", "first", "second", "The backup is protected."):
        assert part in text
    assert "third" not in text
    assert f'href="{tab}"' in page.text
    assert [find_backup(row) is None for row in (first, second, third)] == [True, False, False]
    assert browser.post("/backups/delete").status_code == 422
    assert browser.get("/backups/delete").headers["Location"] == "/backups"


def test_list_has_backups_of_destroyed_instances(browser, add_row, machine):
    live = add_row("live one", instance_id=machine.id)
    gone = add_row("old one", recorded_name="Payroll", instance_deleted_at=clock.now())
    page = browser.get("/backups")
    assert f'href="/instances/{machine.id}/backups"' in find_row(page, live.id)
    row = find_row(page, gone.id)
    assert "Payroll" in row
    assert "Destroyed" in row
    assert "The instance was destroyed." in row
    assert f'href="/backups/{gone.id}/image"' in row
    assert browser.get(f"/backups/{gone.id}/restore").status_code == 404


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["b", "a", "c"]),
        ("search=payroll", ["c"]),
        ("instance_state=deleted", ["c"]),
        ("backup_type=incremental", ["b"]),
        ("protected=true", ["a"]),
        ("created=false", ["b"]),
        ("since=2020-01-01", ["b", "a", "c"]),
        ("until=2020-01-01", []),
        ("sort=oldest", ["c", "a", "b"]),
        ("sort=largest", ["c", "a", "b"]),
        ("sort=name", ["a", "b", "c"]),
        ("sort=unknown&protected=unknown&since=unknown", ["b", "a", "c"]),
    ],
)
def test_list_is_filtered_and_sorted(browser, add_row, query, names):
    add_row("c", recorded_name="Payroll", instance_deleted_at=clock.now(), age=30, size=9)
    add_row("a", protected=True, age=20, size=8)
    add_row("b", backup_type="incremental", status="failed", age=10)
    text = browser.get(f"/backups?{query}", headers=PARTIAL_HEADERS).text
    assert re.findall(r'aria-label="Select (\w)"', text) == names
    assert names or "No backup matches" in text


def test_list_takes_constant_number_of_queries(browser, add_row, machine, cast, queries):
    policy = backup_policies.create(cast.owner, name="nightly", **POLICY_VALUES)

    def count_queries(address):
        queries.clear()
        assert browser.get(address).status_code == 200
        return len(queries)

    addresses = ("/backups", f"/instances/{machine.id}/backups")
    add_row("first", instance_id=machine.id, policy_id=policy.id)
    add_row("creating", instance_id=machine.id, status="creating")
    counts = [count_queries(address) for address in addresses]
    for number in range(10):
        add_row(f"b{number}", instance_id=machine.id, policy_id=policy.id, status=("creating", "failed")[number % 2])
        add_row(f"d{number}", instance_id=f"{UNKNOWN_ID[:-1]}{number}", instance_deleted_at=clock.now())
    assert [count_queries(address) for address in addresses] == counts
    assert "Policy nightly" in browser.get("/backups").text


def test_policy_is_attached_and_detached_on_the_tab(browser, machine, cast, tab):
    assert "Create backup policy" in read(browser.get(tab))
    policy = backup_policies.create(cast.owner, name="nightly", timezone="Asia/Tokyo", **POLICY_VALUES)
    session.commit()
    assert f'<option value="{policy.id}">nightly</option>' in browser.get(tab).text
    assert (
        browser.post(f"/instances/{machine.id}/backup-policy/attach", data={"policy_id": policy.id}).status_code == 303
    )
    text = read(browser.get(tab))
    for part in ("nightly", "Daily at 02:00", "Asia/Tokyo", "Next backup", "3 newest backups", "Detach"):
        assert part in text
    assert (
        browser.post(f"/instances/{machine.id}/backup-policy/detach", data={"policy_id": policy.id}).status_code == 303
    )
    assert "This instance is not backed up automatically." in read(browser.get(tab))


def test_policy_of_the_platform_is_read_only(browser, machine, tab):
    policy = backup_policies.create(None, name="provided", **POLICY_VALUES)
    backup_policies.attach(policy, machine)
    session.commit()
    text = read(browser.get(tab))
    for part in ("provided", "Platform", "Daily at 02:00", "This policy is managed by the platform."):
        assert part in text
    assert "Detach" not in text
    data = {"policy_id": policy.id}
    assert browser.post(f"/instances/{machine.id}/backup-policy/detach", data=data).status_code == 404
    assert browser.get(f"/backup-policies/{policy.id}").status_code == 404


def test_account_without_backups_sees_the_next_step(browser_as):
    text = read(browser_as("outsider").get("/backups"))
    assert "No backup yet" in text
    assert "Choose an instance" in text


def test_backups_of_others_are_not_found(browser_as, add_row, machine):
    backup = add_row("mine", instance_id=machine.id)
    outsider = browser_as("outsider")
    assert "mine" not in outsider.get("/backups").text
    for method, path in ACTIONS:
        assert outsider.open(f"/backups/{backup.id}/{path}", method=method).status_code == 404, path
    assert outsider.post("/backups/delete", data={"ids": backup.id}).text.count("These backups no longer exist.") == 1


def test_limited_member_reaches_own_backups_only(browser_as, add_member, add_row, cast, machine):
    allowed = ["instances.view", "instances.backups", "instances.restore", "images.manage"]
    add_member("limited", allowed, "chosen", grants=[machine])
    other = cast.instance(display_name="Payroll")
    reached, hidden = add_row("of-the-shop", instance_id=machine.id), add_row("of-payroll", instance_id=other.id)
    browser = browser_as("limited")
    page = browser.get("/backups")
    assert "of-the-shop" in page.text
    assert "of-payroll" not in page.text
    assert browser.get(f"/instances/{other.id}/backups").status_code == 404
    for method, path in ACTIONS:
        assert browser.open(f"/backups/{hidden.id}/{path}", method=method).status_code == 404, path
    browser.post("/backups/delete", data={"ids": [hidden.id]})
    assert not session.get(InstanceBackup, hidden.id, populate_existing=True).is_claimed
    assert browser.post(f"/backups/{reached.id}/protection/on").status_code == 303
    tab_text = read(browser.get(f"/instances/{machine.id}/backups"))
    assert "it needs backup_policies.manage" in tab_text


def test_member_of_a_project_sees_its_backups(browser_as, add_member, add_row, cast, machine):
    project = projects.create(cast.owner, name="shop")
    session.flush()
    machine.project_id = project.id
    add_member("sorter", ["instances.view"], "projects", grants=[project])
    add_row("of-the-shop", instance_id=machine.id)
    add_row("of-payroll", instance_id=cast.instance().id)
    text = browser_as("sorter").get("/backups").text
    assert "of-the-shop" in text
    assert "of-payroll" not in text


def test_viewer_sees_disabled_actions(browser_as, add_row, machine, destination):
    backup = add_row("nightly", instance_id=machine.id)
    browser = browser_as("viewer")
    for address in ("/backups", f"/instances/{machine.id}/backups"):
        page = browser.get(address)
        row = find_row(page, backup.id)
        for permission in ("instances.restore", "images.manage", "instances.backups"):
            assert f"needs {permission}" in row, permission
        assert f"/backups/{backup.id}/" not in page.text
    for method, path in ACTIONS:
        assert browser.open(f"/backups/{backup.id}/{path}", method=method).status_code == 403, path
    assert browser.post(f"/instances/{machine.id}/backups").status_code == 403


def test_disabled_destination_is_none(browser, tab, cast):
    backup_destinations.create(name="b2", storage_type="local", config={"path": "/srv/b2"}, enabled=False)
    session.commit()
    assert "Backups are not available in this location." in read(browser.get(tab))

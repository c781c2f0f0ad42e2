"""Operators' pages of backups: all backups, unknown outcomes, missing backups, an instance's tab, restoring."""

import re
from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import BackupRepository, HypervisorGroup, Instance, InstanceBackup, Task
from panel.pages.shared.backups import describe_deletion
from panel.services import backup_destinations, backup_policies
from tests.support.cast import UNKNOWN_ID
from tests.support.html_pages import PARTIAL_HEADERS, find_attention_items
from worker.backups.errors import TargetFailed
from worker.backups.targets import LocalTarget
from worker.tasks import backup_repositories as repository_tasks

LIST_PATH = "/admin/backups"
POLICY = {"full_backup_frequency": "daily", "full_backup_time": "02:00", "full_backup_day": None, "keep_last": 0}
POLICY |= {"max_incremental_chain": 7, "backup_device": "all", "retention_mode": "count", "retention_count": 7}
POLICY |= {"keep_within_days": 0, "keep_daily": 0, "keep_weekly": 0, "keep_monthly": 0, "keep_yearly": 0}


@pytest.fixture
def browser(browser_as):
    return browser_as("admin")


@pytest.fixture
def list_names(browser):
    """Return a function that lists the names of backups: `list_names("?protected=true")`."""

    def read(query="", path=LIST_PATH):
        answer = browser.get(f"{path}{query}", headers=PARTIAL_HEADERS)
        assert answer.status_code == 200
        return re.findall(r'fw-medium text-break" href="[^"]+">([^<]+)<', answer.text)

    return read


@pytest.fixture
def create_policy(rolled_back_app):
    """Return a function that creates a policy of the platform, or of an account."""

    def create(account=None, name="nightly"):
        policy = backup_policies.create(account, name=name, **POLICY)
        session.commit()
        return policy

    return create


@pytest.fixture
def tab(browser, machine):
    """Return a function that loads the tab of backups of the machine."""
    return lambda: browser.get(f"/admin/instances/{machine.id}/backups").text


def test_filters_and_orders(list_names, add_row, machine, tmp_path):
    config = {"path": str(tmp_path / "2")}
    other = backup_destinations.create(name="b2", storage_type="local", config=config)
    gone = {"instance_deleted_at": clock.now()}
    add_row("old", age=10, description="by Ada", protected=True, size=3, damaged=True, **gone)
    add_row("claimed", age=5, delete_claimed_at=clock.now(), backup_type="incremental", size=1, **gone)
    add_row("failed", age=4, status="failed", destination=other, missing_confirmed_at=clock.now())
    add_row("live", instance_id=machine.id, size=2, caller="owner")
    day = lambda age: f"{clock.now() - timedelta(days=age):%Y-%m-%d}"  # noqa: E731
    everything = ["live", "failed", "claimed", "old"]
    expected = {
        "": everything,
        "?search=ADA": ["old"],
        f"?instance_id={machine.id}": ["live"],
        f"?backup_storage_id={other.id}": ["failed"],
        "?backup_type=incremental": ["claimed"],
        "?created=false": ["failed"],
        "?protected=true": ["old"],
        "?unusable=true": ["failed", "old"],
        "?unusable=false": ["live", "claimed"],
        "?instance_state=live": ["live", "failed"],
        "?deletion=none": ["live", "failed", "old"],
        "?deletion=claimed": ["claimed"],
        "?deletion=cleanup": ["claimed"],
        "?deletion=unconfirmed": ["claimed"],
        f"?since={day(5)}": ["live", "failed", "claimed"],
        f"?until={day(5)}": ["claimed", "old"],
        "?order=oldest": everything[::-1],
        "?order=largest": ["old", "live", "claimed", "failed"],
        "?order=smallest": ["failed", "claimed", "live", "old"],
        "?order=name": ["claimed", "failed", "live", "old"],
        "?order=name_down": ["old", "live", "failed", "claimed"],
        "?created=nonsense&order=nonsense&since=nonsense&deletion=x&backup_type=&page=99": everything,
    }
    assert {query: list_names(query) for query in expected} == expected


def test_rare_filters_are_open_while_they_are_set(browser, destination):
    assert '<details class="more-filters">' in browser.get(f"{LIST_PATH}?search=x").text
    assert '<details class="more-filters" open>' in browser.get(f"{LIST_PATH}?protected=true").text


def test_list_shows_facts_and_owner(browser, add_row, machine, cast):
    add_row("nightly", size=2048, instance_id=machine.id, protected=True)
    add_row("broken", status="failed", error="The disk could not be read.", instance_deleted_at=clock.now())
    text = browser.get(LIST_PATH).text
    for part in ("2 KiB", "owner@example.com", "backups-1", "protected", "Complete", "The disk could not be read."):
        assert part in text, part
    assert f"/admin/instances/{machine.id}/backups" in text
    assert "destroyed" in text


def test_lists_take_constant_number_of_queries(browser, add_row, machine, queries, cast):
    def count(path):
        browser.get(path)
        queries.clear()
        browser.get(path)
        return len(queries)

    paths = [LIST_PATH, f"{LIST_PATH}/missing", f"/admin/instances/{machine.id}/backups"]
    add_row("first", instance_id=machine.id)
    before = [count(path) for path in paths]
    for number in range(8):
        add_row(f"n{number}", instance_id=machine.id, caller=("owner", "outsider")[number % 2])
        cast.instance().power = "on"
    session.execute(Instance.__table__.update().values(deployed=True, power="on"))
    session.commit()
    assert [count(path) for path in paths] == before


def test_backup_is_shown_protected_and_deleted(browser, back_up, find_backup, machine):
    backup = back_up(backup_type="incremental")
    path = f"{LIST_PATH}/{backup['id']}"
    text = browser.get(path).text
    for part in (backup["name"], "Everything", "The first backup", "owner@example.com", "frozen by the guest agent"):
        assert part in text, part
    browser.post(f"{path}/protect")
    assert find_backup(backup).protected
    refused = browser.post(f"{path}/delete", headers=PARTIAL_HEADERS)
    assert "The backup is protected. Remove the protection first." in refused.text
    browser.post(f"{path}/unprotect")
    assert "Deletion of the backup requested." in browser.post(f"{path}/delete", headers=PARTIAL_HEADERS).text
    assert find_backup(backup) is None
    assert browser.get(path).status_code == 404
    assert browser.get(path, headers=PARTIAL_HEADERS).headers["HX-Redirect"] == LIST_PATH, "the open page"


def test_bulk_delete_is_confirmed_and_shows_each_result(browser, back_up, find_backup):
    backups = [back_up(name=name) for name in ("one", "two", "three")]
    ids = [backup["id"] for backup in backups]
    browser.post(f"{LIST_PATH}/{ids[1]}/protect")
    page = browser.post(f"{LIST_PATH}/bulk", data={"action": "delete", "ids": ids})
    assert "Type the number of backups, <strong>3</strong>" in page.text
    wrong = browser.post(f"{LIST_PATH}/bulk", data={"action": "delete", "ids": ids, "typed": "2"})
    assert "The number does not match. Nothing was deleted." in wrong.text
    assert all(find_backup(backup) for backup in backups)
    ids.append(UNKNOWN_ID)
    done = browser.post(f"{LIST_PATH}/bulk", data={"action": "delete", "ids": ids, "typed": "4"}).text
    assert "Deletion requested for 2 backups. 2 refused." in done
    assert "The backup is protected. Remove the protection first." in done
    assert "No such backup." in done
    assert [find_backup(backup) is None for backup in backups] == [True, False, True]


def test_unknown_outcomes_of_deletions_are_no_refusals(rolled_back_app):
    def describe(*reasons):
        return describe_deletion([{"success": reason is None, "reason": reason} for reason in reasons])

    assert describe(None) == "Deletion requested for 1 backup."
    sentence = describe(None, None, "delete_dispatch_unconfirmed", "backup_not_deletable")
    assert sentence == "Deletion requested for 2 backups. 1 refused. Outcome unknown for 1."


def test_backup_without_new_data_says_so(browser, add_row):
    row = add_row("same", size=0)
    for path in (LIST_PATH, f"{LIST_PATH}/{row.id}"):
        assert "All data was stored already." in browser.get(path).text


def test_bulk_protection(browser, add_row):
    rows = [add_row("one"), add_row("two", delete_claimed_at=clock.now())]
    ids = [row.id for row in rows]
    done = browser.post(f"{LIST_PATH}/bulk", data={"action": "protect", "ids": ids}).text
    assert "Done for 1 backup. 1 refused." in done
    assert "The backup is being deleted." in done
    assert [session.get(InstanceBackup, row_id).protected for row_id in ids] == [True, False]
    browser.post(f"{LIST_PATH}/bulk", data={"action": "unprotect", "ids": ids})
    assert not session.get(InstanceBackup, ids[0]).protected
    for data in ({"action": "protect"}, {"action": "destroy", "ids": ids}, {"action": "delete", "ids": "x" * 99}):
        assert browser.post(f"{LIST_PATH}/bulk", data=data).status_code == 422
    assert browser.get(f"{LIST_PATH}/bulk").headers["Location"] == LIST_PATH


@pytest.mark.parametrize("is_gone", [True, False])
def test_unknown_outcome_is_shown_and_reconciled(browser, back_up, find_backup, monkeypatch, is_gone):
    backup = back_up()
    path = f"{LIST_PATH}/{backup['id']}"
    real_delete, real_stat = LocalTarget.delete, LocalTarget.stat

    def fail(target, name):
        if is_gone:
            real_delete(target, name)
        raise TargetFailed("No answer.")

    monkeypatch.setattr(LocalTarget, "delete", fail)
    monkeypatch.setattr(LocalTarget, "stat", lambda *_: fail_always())
    assert "It is not known whether the backup was deleted." in browser.post(f"{path}/delete").text
    text = browser.get(LIST_PATH).text
    task = session.query(Task).filter_by(kind="backup_delete").one()
    assert "1 deletion with an unknown outcome" in text
    assert "Outcome unknown" in text
    assert f'data-copy="{task.id}"' in text
    reconcile = f"{LIST_PATH}/operations/{task.id}/reconcile"
    assert reconcile in text
    times = iter(range(1000))
    with monkeypatch.context() as patch:
        patch.setattr("panel.workflows.waiting.time.monotonic", lambda: next(times))
        answer = browser.post(reconcile, headers=PARTIAL_HEADERS)
    assert "the outcome is still unknown" in answer.text
    monkeypatch.setattr(LocalTarget, "delete", real_delete)
    monkeypatch.setattr(LocalTarget, "stat", real_stat)
    answer = browser.post(reconcile, headers=PARTIAL_HEADERS)
    assert ("The backup was deleted." if is_gone else "You can delete it again.") in answer.text
    assert (find_backup(backup) is None) == is_gone
    assert "with an unknown outcome" not in browser.get(LIST_PATH).text


def fail_always():
    raise TargetFailed("No answer.")


def test_reconciling_without_a_recorded_operation_is_disabled(browser, add_row):
    add_row("nightly", delete_claimed_at=clock.now(), delete_task_id=UNKNOWN_ID)
    assert "The operation is no longer recorded." in browser.get(LIST_PATH).text
    assert browser.post(f"{LIST_PATH}/operations/{UNKNOWN_ID}/reconcile").status_code == 404


def test_instance_without_the_default_policy_is_listed(browser, list_names, add_row, machine, create_policy, cast):
    """Only new instances are attached to it. A recent backup by hand does not replace a policy."""
    cast.location.default_backup_policy_id = create_policy().id
    session.commit()
    list_gap = lambda gap: list_names(f"?gap={gap}", f"{LIST_PATH}/missing")  # noqa: E731
    assert (list_gap("first_pending"), list_gap("no_policy")) == ([machine.display_name], [])
    add_row("by hand", instance_id=machine.id, completed_at=clock.now())
    assert (list_gap("first_pending"), list_gap("no_policy")) == ([], [machine.display_name])
    assert "Not attached to the default policy of its location" in browser.get(f"{LIST_PATH}/missing").text


def test_instances_without_recent_backup_are_listed(browser, list_names, add_row, machine, create_policy, cast, tab):
    """Also those without a policy. Attention is asked for only when a policy does not do what it should."""
    path = f"{LIST_PATH}/missing"
    list_gaps = lambda gap="", days=7: list_names(f"?gap={gap}&days={days}", path)  # noqa: E731
    assert (list_gaps(), list_gaps("no_policy"), list_gaps("overdue")) == ([machine.display_name],) * 2 + ([],)
    backup_policies.attach(create_policy(), machine)
    session.commit()
    assert (list_gaps("no_policy"), list_gaps("first_pending")) == ([], [machine.display_name])
    assert "no recent backup" not in find_attention_items(browser.get("/admin").text)
    machine.created_at = clock.now() - timedelta(days=20)
    session.commit()
    assert (list_gaps("first_pending"), list_gaps("overdue"), list_gaps()) == ([],) + ([machine.display_name],) * 2
    items = find_attention_items(browser.get("/admin").text)
    assert "1 running instance has no recent backup" in items
    assert "/admin/backups/missing?gap=overdue" in items
    facts = {"instance_id": machine.id, "completed_at": clock.now() - timedelta(days=5)}
    add_row("failed", status="failed", **facts)
    damaged = add_row("damaged", damaged=True, **facts)
    missing = add_row("missing", missing_confirmed_at=clock.now(), **facts)
    add_row("being deleted", delete_claimed_at=clock.now(), **facts)
    add_row("of the former owner", caller="outsider", **facts)
    assert list_gaps() == [machine.display_name]
    items = find_attention_items(browser.get("/admin").text)
    assert "2 backups are damaged or missing" in items
    assert "/admin/backups?unusable=true" in items
    text = browser.get(f"{LIST_PATH}/{missing.id}").text
    assert "The backup is missing" in text
    assert f"{LIST_PATH}/{missing.id}/restore" not in text
    assert "The backup is damaged" in browser.get(f"{LIST_PATH}/{damaged.id}").text
    add_row("recent", **facts)
    assert (list_gaps(), list_gaps(days=3), list_gaps(days=14)) == ([], [machine.display_name], [])
    assert "5 d ago" in browser.get(f"{path}?days=3").text
    assert list_gaps(days=4) == [], "no choice of the page"
    machine.power = "off"
    session.commit()
    assert list_gaps(days=3) == [], "it does not run"


def test_default_policy_of_the_location_counts_as_policy(browser, list_names, machine, create_policy, destination):
    path = f"{LIST_PATH}/missing"
    group = session.get(HypervisorGroup, machine.group_id)
    group.default_backup_policy_id = create_policy().id
    session.commit()
    assert list_names("?gap=no_policy", path) == []
    assert list_names("?gap=first_pending", path) == [machine.display_name]
    assert "Not attached to the default policy of its location" in browser.get(path).text


def test_tab_backs_up_and_resets_the_chain(browser, machine, destination, run_tasks, tab):
    assert "No backup of this instance yet." in tab()
    browser.post(f"{LIST_PATH}/instances/{machine.id}/create")
    run_tasks()
    backup = session.query(InstanceBackup).one()
    assert f'id="backup-{backup.id}"' in tab()
    answer = browser.post(f"{LIST_PATH}/instances/{machine.id}/reset-chain", headers=PARTIAL_HEADERS)
    assert "The next backup reads everything." in answer.text
    assert session.get(InstanceBackup, backup.id, populate_existing=True).is_chain_end


def test_tab_is_for_operators_only(browser_as, browser, machine, destination):
    assert f"/admin/instances/{machine.id}/backups" in browser.get(f"/admin/instances/{machine.id}").text
    assert browser_as("owner").post(f"{LIST_PATH}/instances/{machine.id}/create").status_code in (303, 403, 404)
    assert session.query(InstanceBackup).count() == 0


def test_tab_chooses_the_policy(browser, machine, create_policy, cast, tab, destination):
    first, own, foreign = create_policy(), create_policy(cast.owner, "own"), create_policy(cast.outsider, "foreign")
    assert (">nightly<" in tab(), ">own<" in tab(), ">foreign<" in tab()) == (True, True, False)
    path = f"/admin/backup-policies/instances/{machine.id}"
    for policy in (first, first, own):
        browser.post(path, data={"policy_id": policy.id})
        assert backup_policies.map_policies([machine.id]) == {machine.id: policy}
    assert "Next run:" in tab()
    browser.post(path, data={"policy_id": foreign.id})
    assert backup_policies.map_policies([machine.id]) == {machine.id: own}, "nothing was changed"
    browser.post(path, data={"policy_id": ""})
    assert backup_policies.map_policies([machine.id]) == {}


def test_restore_needs_the_name_and_runs(browser, back_up, guest, machine, run_tasks):
    guest.write("before")
    backup = back_up()
    guest.write("after")
    path = f"{LIST_PATH}/{backup['id']}/restore"
    page = browser.get(path).text
    assert "Everything written since the backup is lost." in page
    assert machine.disks[0].name in page
    refused = browser.post(path, data={"typed": "another", "target_disk_id": ""})
    assert (refused.status_code, "The name does not match." in refused.text) == (422, True)
    answer = browser.post(path, data={"typed": machine.display_name, "target_disk_id": ""})
    assert answer.headers["Location"] == f"/admin/instances/{machine.id}/backups"
    run_tasks()
    assert guest.read() == "before"


def test_restore_form_says_what_does_not_fit(browser, api_as, back_up, machine, second_disk, find_backup):
    backup = back_up(backup_device="primary")
    first = machine.disks[0]
    path = f"/api/v1/instance/{machine.id}/backups/{backup['id']}/restore"
    answer = api_as("admin", "GET", path).json["data"]
    assert (answer["backup"]["id"], answer["restorable"], answer["reason"]) == (backup["id"], True, None)
    gib = 1024**3
    assert [
        (disk["id"], disk["size"], disk["stored_size"], disk["restorable"], disk["reason"]) for disk in answer["disks"]
    ] == [
        (first.id, first.size * gib, first.size * gib, True, None),
        (second_disk.id, gib, None, False, "source_archive_not_found"),
    ]
    assert "The backup does not have this disk." in browser.get(f"{LIST_PATH}/{backup['id']}/restore").text
    find_backup(backup).delete_claimed_at = clock.now()
    session.commit()
    answer = api_as("admin", "GET", path).json["data"]
    assert (answer["restorable"], answer["reason"], answer["message"]) == (
        False,
        "backup_being_deleted",
        "The backup is being deleted.",
    )
    assert "This backup cannot be restored now" in browser.get(f"{LIST_PATH}/{backup['id']}/restore").text
    assert api_as("admin", "GET", path.replace(backup["id"], UNKNOWN_ID)).json["reason"] == "backup_not_found"


def test_operator_restores_backup_of_an_earlier_owner(browser, back_up, machine, cast, run_tasks, tab):
    backup = back_up()
    machine.account_id = cast.outsider.id
    session.commit()
    assert "Of the earlier owner owner@example.com" in tab()
    path = f"{LIST_PATH}/{backup['id']}/restore"
    assert path in browser.get(LIST_PATH).text
    assert browser.post(path, data={"typed": machine.display_name}).status_code == 303


def test_restore_of_a_destroyed_instance_is_disabled(browser, add_row):
    row = add_row("nightly", instance_deleted_at=clock.now())
    text = browser.get(LIST_PATH).text
    assert "The instance was destroyed." in text
    assert f"{LIST_PATH}/{row.id}/restore" not in text
    assert browser.get(f"{LIST_PATH}/{row.id}/restore").status_code == 404


def test_read_only_operator_changes_nothing(browser_as, cast, add_row, machine):
    row = add_row("nightly", instance_id=machine.id)
    cast.admin.operator_role = "read_only"
    session.commit()
    browser = browser_as("admin")
    text = browser.get(LIST_PATH).text
    assert 'id="bulk"' not in text
    assert f"{LIST_PATH}/{row.id}/delete" not in text
    assert browser.post(f"{LIST_PATH}/{row.id}/delete").status_code == 403
    assert browser.post(f"{LIST_PATH}/bulk", data={"action": "protect", "ids": row.id}).status_code == 403


def test_account_with_backups_is_not_deleted(browser, api_as, add_row, cast):
    backup, path = add_row("nightly", caller="outsider"), f"/api/v1/user/{cast.outsider.id}"
    page = f"/admin/customers/{cast.outsider.id}/access"
    assert "The account still has 1 backup. Remove these first." in browser.get(page).text
    refused = api_as("admin", "DELETE", path)
    assert (refused.status_code, refused.json["reason"]) == (409, "owns_resources")
    session.delete(backup)
    session.commit()
    assert "The account still has" not in browser.get(page).text
    assert api_as("admin", "DELETE", path).status_code == 200
    assert session.query(BackupRepository).count() == 0


def test_space_collection_ends_when_its_destination_is_removed(browser, back_up, run_tasks, destination, monkeypatch):
    browser.post(f"{LIST_PATH}/{back_up()['id']}/delete")
    real_collect = repository_tasks.collect_garbage

    def remove_and_collect(*args, **options):
        assert browser.post(f"/admin/backup-destinations/{destination.id}/delete").status_code == 303
        return real_collect(*args, **options)

    monkeypatch.setattr(repository_tasks, "collect_garbage", remove_and_collect)
    repository_tasks.collect_due()
    run_tasks()
    task = session.query(Task).filter_by(kind="backup_collect_garbage").one()
    assert (task.status, task.error) == ("failed", "The repository was deleted in the meantime.")

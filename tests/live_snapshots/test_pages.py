"""The card of the live session on the snapshots tab."""

from panel.core.db import session
from panel.services import forges
from panel.services.state_machine import REASON_MESSAGES


def get_snapshots_tab(browse, machine, caller="owner"):
    return browse(caller).get(f"/instances/{machine.id}/snapshots").text


def test_forge_session_on_pages_without_javascript(browser_as, machine, run_tasks, guest):
    owner = browser_as("owner")
    assert "Start a test session" in get_snapshots_tab(browser_as, machine)
    guest.write("before")
    answer = owner.post(f"/instances/{machine.id}/forge/enable")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/instances/{machine.id}/snapshots")
    run_tasks()
    assert "Discard all changes" in get_snapshots_tab(browser_as, machine)
    guest.write("after")
    owner.post(f"/instances/{machine.id}/forge/discard")
    run_tasks()
    assert guest.read() == "before"
    assert "Discarded" in get_snapshots_tab(browser_as, machine)
    owner.post(f"/instances/{machine.id}/forge/enable")
    run_tasks()
    owner.post(f"/instances/{machine.id}/forge/commit")
    run_tasks()
    assert forges.find_latest(machine).status == "committed"


def test_unavailable_forge_action_shows_reason(browser_as, machine, run_tasks):
    machine.power = "off"
    session.commit()
    assert REASON_MESSAGES["not_running"] in get_snapshots_tab(browser_as, machine)
    assert "needs instances.manage" in get_snapshots_tab(browser_as, machine, "viewer")
    answer = browser_as("owner").post(f"/instances/{machine.id}/forge/enable")
    assert answer.status_code == 409
    assert REASON_MESSAGES["not_running"] in answer.text
    assert browser_as("owner").post(f"/instances/{machine.id}/forge/nonsense").status_code == 404
    assert browser_as("outsider").post(f"/instances/{machine.id}/forge/enable").status_code == 404


def test_forge_session_of_additional_disk_on_page(browser_as, machine, second_disk, run_tasks):
    assert second_disk.name in get_snapshots_tab(browser_as, machine)
    browser_as("owner").post(f"/instances/{machine.id}/forge/enable", data={"disk_ids": [second_disk.id]})
    run_tasks()
    assert forges.find_latest(machine).disk_ids == [second_disk.id]


def test_disabled_reason_is_shown_as_text(api_as, browser_as, machine, run_tasks):
    """Phones show no tooltips."""
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    run_tasks()
    assert "</svg> The instance is not running. Start it first.</p>" in get_snapshots_tab(browser_as, machine)
    machine.suspended_reason = "admin"
    session.commit()
    sentence = "</svg> The instance is suspended. Only an operator can resume it.</p>"
    assert get_snapshots_tab(browser_as, machine).count(sentence) == 2, "one for snapshots, one for live sessions"

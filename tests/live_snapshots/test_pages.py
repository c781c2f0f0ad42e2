"""The card of the live session."""

from panel.core.db import session
from panel.services import forges


def tab(browse, machine, who="owner"):
    return browse(who).get(f"/instances/{machine.id}/snapshots").text


def test_the_whole_way_without_javascript(browse, machine, work, guest):
    owner = browse("owner")
    assert "Begin a live session" in tab(browse, machine)
    guest.write("before")
    answer = owner.post(f"/instances/{machine.id}/forge/enable")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/instances/{machine.id}/snapshots")
    work()
    assert "Throw away everything" in tab(browse, machine)
    guest.write("after")
    owner.post(f"/instances/{machine.id}/forge/discard")
    work()
    assert guest.read() == "before"
    assert "Discarded" in tab(browse, machine)
    owner.post(f"/instances/{machine.id}/forge/enable")
    work()
    owner.post(f"/instances/{machine.id}/forge/commit")
    work()
    assert forges.latest(machine).status == "committed"


def test_what_cannot_be_done_says_why(browse, machine, work):
    machine.power = "off"
    session.commit()
    assert forges.WORDS["not_running"] in tab(browse, machine)
    assert "needs instances.manage" in tab(browse, machine, "viewer")
    answer = browse("owner").post(f"/instances/{machine.id}/forge/enable")
    assert answer.status_code == 409
    assert forges.WORDS["not_running"] in answer.text
    assert browse("owner").post(f"/instances/{machine.id}/forge/nonsense").status_code == 404
    assert browse("outsider").post(f"/instances/{machine.id}/forge/enable").status_code == 404


def test_a_further_disk_can_be_chosen(browse, machine, second_disk, work):
    assert second_disk.name in tab(browse, machine)
    browse("owner").post(f"/instances/{machine.id}/forge/enable", data={"disk_ids": [second_disk.id]})
    work()
    assert forges.latest(machine).disk_ids == [second_disk.id]


def test_why_there_is_nothing_to_press_can_be_read(as_, browse, machine, work):
    """Also on a phone, which shows no tooltips."""
    as_("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    work()
    assert "</svg> The instance is not running. Start it first.</p>" in tab(browse, machine)
    machine.suspended_reason = "admin"
    session.commit()
    sentence = "</svg> The instance is suspended. It has to be unsuspended first.</p>"
    assert tab(browse, machine).count(sentence) == 2, "of snapshots, and of live sessions"

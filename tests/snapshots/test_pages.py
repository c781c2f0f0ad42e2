"""What pages show of an instance that returns to a snapshot."""


def test_pages_show_a_rollback_until_it_has_ended(call_snapshot_api, take_snapshot, run_tasks, browser_as, machine):
    take_snapshot("one")
    pages = [
        ("owner", "/instances"),
        ("owner", f"/instances/{machine.id}"),
        ("admin", "/admin/instances"),
        ("admin", f"/admin/instances/{machine.id}"),
    ]
    call_snapshot_api("POST", "/rollback", snapname="one")
    for caller, path in pages:
        assert "Rolling back" in browser_as(caller).get(path).text, path
    run_tasks()
    for caller, path in pages:
        assert "Rolling back" not in browser_as(caller).get(path).text, path

"""Watching folders for changes, on the wire."""

import time

FILES = "filesystem.Filesystem"


def read_changes(client, *expected):
    """Read the events of a watch until all the expected (name, type) have come."""
    changes = set()
    while not set(expected) <= changes:
        event = client.read_envelope()[1].get("filesystem")
        if event is None:  # a keepalive, on a busy machine
            continue
        changes.add((event["name"], event["type"].removeprefix("EVENT_TYPE_")))
    return changes


def test_watch_stream(client, connect, tmp_path):
    message = {"path": str(tmp_path), "recursive": True, "include_entry": True}
    assert client.open_stream(f"{FILES}/WatchDir", message, {"Keepalive-Ping-Interval": "1"}) == 200
    assert client.read_envelope() == (0, {"start": {}})
    (tmp_path / "a").write_text("1")
    event = client.read_envelope()[1]["filesystem"]
    assert (event["name"], event["type"], event["entry"]["path"]) == ("a", "EVENT_TYPE_CREATE", f"{tmp_path}/a")
    read_changes(client, ("a", "WRITE"))
    (tmp_path / "a").chmod(0o600)
    read_changes(client, ("a", "CHMOD"))
    (tmp_path / "a").rename(tmp_path / "b")
    read_changes(client, ("a", "RENAME"), ("b", "CREATE"))
    (tmp_path / "b").unlink()
    read_changes(client, ("b", "REMOVE"))
    (tmp_path / "x" / "y").mkdir(parents=True)
    read_changes(client, ("x", "CREATE"), ("x/y", "CREATE"))
    (tmp_path / "x" / "y" / "z").write_text("")
    read_changes(client, ("x/y/z", "CREATE"))
    (tmp_path / "x").rename(tmp_path / "w")
    (tmp_path / "w" / "y" / "z").unlink()
    read_changes(client, ("x", "RENAME"), ("w", "CREATE"), ("w/y/z", "REMOVE"))
    assert client.read_envelope()[1] == {"keepalive": {}}
    assert connect().call(f"{FILES}/CreateWatcher", {"path": f"{tmp_path}/absent"})[1]["code"] == "not_found"


def test_watch_errors_and_deadline(client, connect, tmp_path):
    client.open_stream(f"{FILES}/WatchDir", {"path": f"{tmp_path}/absent"})
    assert client.read_events()[1]["error"]["code"] == "not_found"
    (tmp_path / "file").write_text("")
    client.open_stream(f"{FILES}/WatchDir", {"path": f"{tmp_path}/file"})
    assert client.read_events()[1]["error"]["code"] == "invalid_argument"
    client.open_stream(f"{FILES}/WatchDir", {"path": str(tmp_path)}, {"Connect-Timeout-Ms": "100"})
    events, end = client.read_events()
    assert (events, end["error"]["code"]) == ([{"start": {}}], "deadline_exceeded")


def test_watcher_that_is_polled(client, tmp_path):
    watcher = client.call(f"{FILES}/CreateWatcher", {"path": str(tmp_path)})[1]
    (tmp_path / "a").write_text("")
    events = []
    for _attempt in range(50):
        events += client.call(f"{FILES}/GetWatcherEvents", watcher)[1]["events"]
        if events:
            break
        time.sleep(0.02)
    assert events[0] == {"name": "a", "type": "EVENT_TYPE_CREATE"}
    assert client.call(f"{FILES}/RemoveWatcher", watcher) == (200, {})
    assert client.call(f"{FILES}/GetWatcherEvents", watcher)[1]["code"] == "not_found"
    assert client.call(f"{FILES}/RemoveWatcher", watcher)[0] == 404

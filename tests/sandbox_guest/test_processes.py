"""The service process.Process of the sandbox daemon, on the wire."""

import base64
import os
import pwd
import time
from pathlib import Path

import pytest

from tests.sandbox_guest.daemon import USER
from tests.sandbox_guest.raw_client import STREAM_TYPE, encode_envelope

START = "process.Process/Start"


def make_start(script, **fields):
    process = {"cmd": "/bin/bash", "args": ["-c", script], **fields.pop("process", {})}
    return {"process": process, "stdin": False, **fields}


def join_output(events, kind="stdout"):
    return b"".join(base64.b64decode(event.get("data", {}).get(kind, "")) for event in events)


def start(client, script, headers=None, **fields):
    """Start a process and return its pid."""
    assert client.open_stream(START, make_start(script, **fields), headers) == 200
    flags, message = client.read_envelope()
    assert flags == 0
    return message["event"]["start"]["pid"]


def read_until(client, kind, text):
    """Return the output up to a text."""
    output = b""
    while text not in output:
        output += join_output([client.read_envelope()[1]["event"]], kind)
    return output


def test_start_sends_events_in_order(client):
    client.open_stream(START, make_start("echo hi; exit 2"))
    events, end = client.read_events()
    assert list(events[0]) == ["start"]
    assert events[1:] == [
        {"data": {"stdout": "aGkK"}},
        {"end": {"exitCode": 2, "exited": True, "status": "exit status 2", "error": "exit status 2"}},
    ]
    assert end == {}


def test_end_of_successful_process_has_no_error(client):
    client.open_stream(START, make_start("echo out; echo err >&2"))
    events, _end = client.read_events()
    assert (join_output(events), join_output(events, "stderr")) == (b"out\n", b"err\n")
    assert events[-1] == {"end": {"exitCode": 0, "exited": True, "status": "exit status 0"}}


def test_environment_and_folder(client, tmp_path):
    script = 'echo "$SHARED|$OWN|$HOME|$USER|$PWD"'
    client.open_stream(START, make_start(script, process={"envs": {"OWN": "1"}, "cwd": str(tmp_path)}))
    events, _end = client.read_events()
    assert join_output(events).decode() == f"of the sandbox|1|{USER.pw_dir}|{USER.pw_name}|{tmp_path}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_process_runs_as_requested_user(client):
    nobody = pwd.getpwnam("nobody")
    fields = {"Authorization": "Basic " + base64.b64encode(b"nobody:").decode()}
    client.open_stream(START, make_start("id -u; id -g; id -G", process={"cwd": "/"}), fields)
    events, _end = client.read_events()
    groups = " ".join(map(str, os.getgrouplist("nobody", nobody.pw_gid)))
    assert join_output(events).decode() == f"{nobody.pw_uid}\n{nobody.pw_gid}\n{groups}\n"


def test_unknown_user_is_unauthenticated(client):
    fields = {"Authorization": "Basic " + base64.b64encode(b"no-such-user:").decode()}
    client.open_stream(START, make_start("true"), fields)
    assert client.read_events()[1]["error"]["code"] == "unauthenticated"


def test_keepalive_after_silence(client):
    start(client, "sleep 1.3", {"Keepalive-Ping-Interval": "1"})
    events, _end = client.read_events()
    assert events[0] == {"keepalive": {}}
    assert "end" in events[-1]


def test_deadline_ends_stream_before_process(client, connect):
    pid = start(client, "sleep 30", {"Connect-Timeout-Ms": "200"})
    events, end = client.read_events()
    assert events == []
    assert end["error"]["code"] == "deadline_exceeded"
    other = connect()
    wait_until(lambda: other.call("process.Process/List", {})[1]["processes"] == [])
    assert not os.path.exists(f"/proc/{pid}")


def wait_until(condition):
    for _attempt in range(100):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("the condition did not come true")


def test_process_survives_disconnect_and_can_be_connected(client, connect):
    pid = start(client, "echo first; read line; echo got $line; exit 3", stdin=True, tag="survivor")
    read_until(client, "stdout", b"first")
    client.close()
    other, caller = connect(), connect()
    (process,) = caller.call("process.Process/List", {})[1]["processes"]
    assert (process["pid"], process["tag"], process["config"]["cmd"]) == (pid, "survivor", "/bin/bash")
    assert other.open_stream("process.Process/Connect", {"process": {"tag": "survivor"}}) == 200
    assert other.read_envelope()[1] == {"event": {"start": {"pid": pid}}}
    message = {"process": {"pid": pid}, "input": {"stdin": base64.b64encode(b"text\n").decode()}}
    assert caller.call("process.Process/SendInput", message) == (200, {})
    events, end = other.read_events()
    assert join_output(events) == b"got text\n"
    assert events[-1]["end"]["exitCode"] == 3
    assert end == {}
    late = connect()
    late.open_stream("process.Process/Connect", {"process": {"pid": pid}})
    events, end = late.read_events()
    assert [list(event) for event in events] == [["start"], ["end"]]
    assert caller.call("process.Process/SendInput", message)[1]["code"] == "not_found"


def test_signals_and_their_errors(client, connect):
    pid = start(client, "exec sleep 30")
    caller = connect()
    selector = {"process": {"pid": pid}}
    assert caller.call("process.Process/SendSignal", {**selector, "signal": 2})[1]["code"] == "unimplemented"
    assert caller.call("process.Process/SendSignal", {**selector, "signal": "SIGNAL_SIGKILL"}) == (200, {})
    events, _end = client.read_events()
    text = "signal: killed"
    assert events == [{"end": {"exitCode": -1, "exited": False, "status": text, "error": text}}]
    assert caller.call("process.Process/SendSignal", {**selector, "signal": 9})[0] == 404


def test_input_errors(client, connect):
    pid = start(client, "sleep 30")
    caller = connect()
    for data in ({"stdin": "YQ=="}, {"pty": "YQ=="}):
        status, error = caller.call("process.Process/SendInput", {"process": {"pid": pid}, "input": data})
        assert (status, error["code"]) == (500, "internal")
    assert caller.call("process.Process/CloseStdin", {"process": {"pid": pid}}) == (200, {})
    assert caller.call("process.Process/Update", {"process": {"pid": pid}, "pty": {"size": {}}})[0] == 500
    assert caller.call("process.Process/SendInput", {"process": {"pid": 1}, "input": {"stdin": "YQ=="}})[0] == 404
    caller.call("process.Process/SendSignal", {"process": {"pid": pid}, "signal": 9})


def test_stream_input_and_close_stdin(client, connect):
    pid = start(client, "wc -c; sleep 0.3", stdin=True)
    caller = connect()
    data = base64.b64encode(b"x" * 1000).decode()
    messages = [{"start": {"process": {"pid": pid}}}, {"keepalive": {}}]
    messages += [{"data": {"input": {"stdin": data}}}] * 200
    chunks = [encode_envelope(message) for message in messages]
    caller.send("POST", "/process.Process/StreamInput", chunks, {"Content-Type": STREAM_TYPE})
    assert caller.read_head()[0] == 200
    assert caller.read_events() == ([{}], {})
    for _attempt in range(2):
        assert caller.call("process.Process/CloseStdin", {"process": {"pid": pid}}) == (200, {})
    events, _end = client.read_events()
    assert join_output(events).strip() == b"200000"


def test_input_waits_for_slow_process_until_its_deadline(client, connect):
    pid = start(client, "sleep 30", stdin=True)
    caller = connect()
    message = {"process": {"pid": pid}, "input": {"stdin": base64.b64encode(b"x" * 2**20).decode()}}
    status, error = caller.call("process.Process/SendInput", message, {"Connect-Timeout-Ms": "200"})
    assert (status, error["code"]) == (504, "deadline_exceeded")
    caller.call("process.Process/SendSignal", {"process": {"pid": pid}, "signal": 9})
    assert "end" in client.read_events()[0][-1]


def test_terminal_has_size_and_job_control(client, connect):
    size = {"size": {"cols": 91, "rows": 33}}
    pid = start(client, "stty size; tty; read line; stty size; exit 4", pty=size, process={"envs": {"TERM": "xterm"}})
    output = read_until(client, "pty", b"/dev/pts/")
    assert output.startswith(b"33 91\r\n")
    caller = connect()
    assert caller.call("process.Process/Update", {"process": {"pid": pid}, "pty": {"size": {"cols": 70, "rows": 20}}})
    assert caller.call("process.Process/CloseStdin", {"process": {"pid": pid}})[1]["code"] == "internal"
    message = {"process": {"pid": pid}, "input": {"pty": base64.b64encode(b"\n").decode()}}
    assert caller.call("process.Process/SendInput", message) == (200, {})
    events, _end = client.read_events()
    assert b"20 70\r\n" in join_output(events, "pty")
    assert events[-1]["end"]["exitCode"] == 4


def test_terminal_passes_interrupt(client, connect):
    pid = start(client, "echo ready; sleep 30", pty={"size": {"cols": 80, "rows": 24}})
    read_until(client, "pty", b"ready")
    message = {"process": {"pid": pid}, "input": {"pty": base64.b64encode(b"\x03").decode()}}
    assert connect().call("process.Process/SendInput", message) == (200, {})
    assert client.read_events()[0][-1]["end"]["status"] in ("signal: interrupt", "exit status 130")


def test_background_child_does_not_delay_end(client):
    began = time.monotonic()
    client.open_stream(START, make_start("sleep 8 & echo done"))
    events, _end = client.read_events()
    assert join_output(events) == b"done\n"
    assert time.monotonic() - began < 5


def test_output_stops_while_client_does_not_read(client, connect):
    """The process is stopped by a full pipe instead of filling the memory of the daemon."""
    size = 64 * 2**20
    pid = start(client, f"head -c {size} /dev/zero; echo written >&2")
    children = Path(f"/proc/{pid}/task/{pid}/children")
    wait_until(lambda: children.read_text() and read_written_bytes(children.read_text().strip()))
    child = children.read_text().strip()
    positions = [0, read_written_bytes(child)]
    while positions[-1] != positions[-2]:
        time.sleep(0.3)
        positions.append(read_written_bytes(child))
    assert positions[-1] < size
    events, _end = client.read_events()
    assert len(join_output(events)) == size
    assert join_output(events, "stderr") == b"written\n"


def read_written_bytes(pid):
    with open(f"/proc/{pid}/io") as file:
        return int(dict(line.split(": ") for line in file)["wchar"])


def test_several_clients_receive_output(client, connect):
    pid = start(client, "read line; echo both", stdin=True)
    other = connect()
    other.open_stream("process.Process/Connect", {"process": {"pid": pid}})
    other.read_envelope()
    message = {"process": {"pid": pid}, "input": {"stdin": "Cg=="}}
    connect().call("process.Process/SendInput", message)
    for reader in (client, other):
        assert join_output(reader.read_events()[0]) == b"both\n"

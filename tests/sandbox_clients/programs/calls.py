"""Calls what the Python SDK offers, in any of its releases, and prints the results as JSON."""

import json
import sys
import time
import urllib.request

from e2b import PtySize, Sandbox, SandboxQuery

METADATA = {"owner": "a b&c=d/é+%"}
CONTENT = bytes(range(256)) * 8192


def catch(call, *arguments, **options):
    """Return the names of the classes of the exception that the call raises."""
    try:
        call(*arguments, **options)
    except Exception as error:
        return [cls.__name__ for cls in type(error).__mro__]
    return []


def use_lifecycle(sandbox):
    info = sandbox.get_info()
    yield "info", [info.metadata, info.state.value, info.name]
    yield (
        "listed",
        [
            sandbox.sandbox_id in [row.sandbox_id for row in Sandbox.list(query=query).next_items()]
            for query in (None, SandboxQuery(metadata=METADATA), SandboxQuery(metadata={"owner": "other"}))
        ],
    )
    sandbox.set_timeout(900)
    yield "extended", (sandbox.get_info().end_at - info.end_at).total_seconds() > 300


def use_commands(sandbox):
    yield "running", sandbox.is_running()
    result = sandbox.commands.run("echo hi $MODE $OWN; echo problem >&2", envs={"OWN": "1"})
    yield "run", [result.stdout, result.stderr, result.exit_code]
    try:
        sandbox.commands.run("exit 3")
    except Exception as error:
        yield "exit_code", error.exit_code
    # The oldest release may raise its HTTP client's error when the server's arrives a moment later.
    yield (
        "timed_out",
        bool({"TimeoutException", "ReadTimeout"} & set(catch(sandbox.commands.run, "sleep 30", timeout=1))),
    )
    command = sandbox.commands.run("read line; echo got $line", background=True, stdin=True)
    sandbox.commands.send_stdin(command.pid, "x\n")
    yield "input", command.wait().stdout
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.resize(terminal.pid, PtySize(rows=40, cols=132))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    output = []
    terminal.wait(on_pty=output.append)
    yield "terminal", b"40 132\r\n" in b"".join(output)


def use_files(sandbox, *, is_signed):
    sandbox.files.write("a b.txt", "text ü")
    sandbox.files.write("folder/bytes", CONTENT)
    yield "text", sandbox.files.read("a b.txt")
    yield "bytes", sandbox.files.read("folder/bytes", format="bytes") == CONTENT
    yield "names", sorted(entry.name for entry in sandbox.files.list("folder"))
    yield "missing", "NotFoundException" in catch(sandbox.files.read, "missing")
    watch = sandbox.files.watch_dir("folder")
    sandbox.files.write("folder/new", "1")
    names, deadline = set(), time.monotonic() + 10
    while "new" not in names and time.monotonic() < deadline:
        names |= {event.name for event in watch.get_new_events()}
        time.sleep(0.02)
    watch.stop()
    yield "watched", sorted(names)
    if is_signed:
        with urllib.request.urlopen(sandbox.download_url("a b.txt"), timeout=10) as answer:
            yield "signed", answer.read().decode()


def use_pause(sandbox):
    pause = sandbox.pause if hasattr(sandbox, "pause") else sandbox.beta_pause
    pause()
    yield "paused", [sandbox.is_running(), sandbox.get_info().state.value]
    yield "unreachable", "TimeoutException" in catch(sandbox.commands.run, "true")
    connected = Sandbox.connect(sandbox.sandbox_id, timeout=600)
    yield "reached_after_connect", not catch(connected.files.read, "a b.txt")
    yield "kept", sandbox.commands.run("cat 'a b.txt'; echo $MODE").stdout
    yield "killed", [connected.kill(), connected.kill(), sandbox.is_running()]
    yield "gone", "NotFoundException" in catch(connected.get_info)


def main(form):
    sandbox = Sandbox.create(timeout=300, metadata=METADATA, envs={"MODE": "test"})
    results = {}
    for calls in (
        use_lifecycle(sandbox),
        use_commands(sandbox),
        use_files(sandbox, is_signed=form == "domain"),
        use_pause(sandbox),
    ):
        results.update(calls)
    print(json.dumps(results))


main(sys.argv[1])

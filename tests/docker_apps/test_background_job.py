"""Long programs in a guest: begun once, looked at often, whatever happens to those who wait for them."""

import stat
import threading
import time

import pytest

from worker.guest import background_job
from worker.nodes.base import AgentUnavailable, CommandResult, NodeError, Refused

WAITS = "read line; while [ ! -e go ]; do sleep 0.05; done; echo $line"


def waits(host):
    """A program that goes on when there is a file."""
    return WAITS.replace("go", str(host.home / "go"), 1)


def go_on(host):
    (host.home / "go").touch()


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class CalledOff(Exception):
    pass


def cancel_after(times):
    """A check that goes wrong after so many looks."""
    looks = iter(range(times))

    def check():
        if next(looks, None) is None:
            raise CalledOff

    return check


def test_what_it_said_and_how_it_ended(fake_guest):
    done = background_job.run(fake_guest, "m", "one", "cat; echo and wrong >&2; exit 3", "in: $x `y` é\n")
    assert done == CommandResult(3, "in: $x `y` é\nand wrong\n")
    assert fake_guest.mode("/run/panel/one") == 0o700
    names = ["exit", "output", "runner", "running", "script"]
    assert sorted(path.name for path in fake_guest.file("/run/panel/one").iterdir()) == names
    assert {fake_guest.mode(f"/run/panel/one/{name}") for name in names if name != "running"} == {0o600}


def test_what_it_makes_is_for_all_who_may_come_there(fake_guest):
    """As when somebody installs packages by hand."""
    background_job.run(fake_guest, "m", "one", f"mkdir {fake_guest.home}/made")
    assert stat.S_IMODE((fake_guest.home / "made").stat().st_mode) == 0o755


def test_what_it_is_given_is_in_no_command_and_does_not_stay(fake_guest):
    background_job.run(fake_guest, "m", "one", "cat >/dev/null", "a secret")
    assert not [word for command in fake_guest.calls for word in command if "secret" in word]
    assert not [
        path for path in fake_guest.file("/run/panel").rglob("*") if path.is_file() and "secret" in path.read_text()
    ]


def test_long_input_comes_in_pieces(fake_guest):
    text = "".join(f"{number} é🚀\n" for number in range(20_000))
    done = background_job.run(fake_guest, "m", "one", f"cat >{fake_guest.home}/got", text)
    assert done == CommandResult(0, "")
    assert (fake_guest.home / "got").read_text() == text
    prepared = [command[5] for command in fake_guest.calls if command[2] == background_job.PREPARE_SCRIPT]
    assert prepared == sorted(set(prepared))
    assert len(prepared) > 10
    assert all(len(given) <= background_job.INPUT_CHUNK_BYTES for given in fake_guest.given)
    assert not list(fake_guest.file("/run/panel/one").glob("piece*"))


def test_only_the_end_of_much_output_is_kept(fake_guest):
    done = background_job.run(
        fake_guest, "m", "one", "n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); echo $n; done", max_output_bytes=12
    )
    assert done == CommandResult(0, "19999\n20000\n")


def test_whoever_begins_it_again_only_looks(fake_guest):
    script = f"echo once >>{fake_guest.home}/done; {waits(fake_guest)}"
    with pytest.raises(CalledOff):
        background_job.run(fake_guest, "m", "one", script, "hello\n", check=cancel_after(2))
    go_on(fake_guest)
    for _ in range(2):
        assert background_job.run(fake_guest, "m", "one", script, "another\n") == CommandResult(0, "hello\n")
    assert (fake_guest.home / "done").read_text() == "once\n"
    assert background_job.run(fake_guest, "m", "two", script, "another\n") == CommandResult(0, "another\n")


def test_many_that_begin_it_at_once_begin_one(fake_guest):
    script = f"echo once >>{fake_guest.home}/done; {waits(fake_guest)}"
    found = []
    begin = lambda: found.append(background_job.run(fake_guest, "m", "one", script, "hello\n"))  # noqa: E731
    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len([command for command in fake_guest.calls if command[2] == background_job.POLL_SCRIPT]) > 12)
    go_on(fake_guest)
    for thread in threads:
        thread.join()
    assert found == [CommandResult(0, "hello\n")] * 6
    assert (fake_guest.home / "done").read_text() == "once\n"


def test_lost_answers_change_nothing(fake_guest):
    """Also those after which the program has begun."""
    fake_guest.deaf = [True, False, True, True]
    script = f"echo once >>{fake_guest.home}/done; echo end"
    assert background_job.run(fake_guest, "m", "one", script) == CommandResult(0, "end\n")
    assert fake_guest.deaf == []
    assert (fake_guest.home / "done").read_text() == "once\n"


def test_an_agent_that_stays_silent_is_given_up(fake_guest, monkeypatch):
    monkeypatch.setattr(background_job, "AGENT_SILENCE_TIMEOUT_SECONDS", 0.3)
    fake_guest.silent = 10**6
    with pytest.raises(AgentUnavailable):
        background_job.run(fake_guest, "m", "one", "true")
    fake_guest.silent = 2
    assert background_job.run(fake_guest, "m", "one", "true").exit_code == 0


def test_a_guest_that_restarts_meanwhile(fake_guest):
    """Everything of it is gone then."""

    def restart():
        if fake_guest.file("/run/panel/one/running").is_symlink():
            background_job.stop(fake_guest, "m", "one")
            fake_guest.file("/run/panel/one").rename(fake_guest.home / "gone")

    with pytest.raises(background_job.Interrupted, match="restarted"):
        background_job.run(fake_guest, "m", "one", waits(fake_guest), check=restart)


def test_a_program_that_somebody_ended(fake_guest):
    def killed():
        if fake_guest.file("/run/panel/one/running").is_symlink():
            background_job.stop(fake_guest, "m", "one")

    with pytest.raises(background_job.Interrupted):
        background_job.run(fake_guest, "m", "one", waits(fake_guest), check=killed)
    background_job.stop(fake_guest, "m", "one")
    background_job.stop(fake_guest, "m", "never begun")


def test_what_is_stopped_before_it_began_does_not_begin(fake_guest):
    fake_guest.file("/run/panel/one").mkdir()
    background_job.stop(fake_guest, "m", "one")
    with pytest.raises(background_job.Interrupted):
        background_job.run(fake_guest, "m", "one", f"touch {fake_guest.home}/late")
    assert not (fake_guest.home / "late").exists()


def test_a_process_of_the_same_number_is_not_taken_for_it(fake_guest):
    folder = fake_guest.file("/run/panel/one")
    folder.mkdir()
    (folder / "running").symlink_to("1")
    with pytest.raises(background_job.Interrupted):
        background_job.run(fake_guest, "m", "one", "true")


def test_past_the_deadline_it_is_stopped(fake_guest):
    with pytest.raises(NodeError, match="did not finish"):
        background_job.run(fake_guest, "m", "one", f"{waits(fake_guest)}; touch {fake_guest.home}/late", deadline=0.3)
    go_on(fake_guest)
    with pytest.raises(background_job.Interrupted):
        background_job.run(fake_guest, "m", "one", "true")
    assert not (fake_guest.home / "late").exists()


def test_under_systemd_it_is_a_unit_of_its_own(fake_guest):
    fake_guest.file("/run/systemd/system").mkdir(parents=True)
    fake_guest.program("systemd-run", 'shift 2; setsid "$@" </dev/null >/dev/null 2>&1 &')
    assert background_job.run(fake_guest, "m", "one", "echo $((6 * 7))") == CommandResult(0, "42\n")
    assert fake_guest.said() == [f"systemd-run --quiet --collect /bin/sh {fake_guest.home}/run/panel/one/runner"]


def test_a_guest_that_cannot_begin_it_says_so(fake_guest):
    fake_guest.file("/run/panel").rmdir()
    fake_guest.file("/run/panel").write_text("no folder")
    with pytest.raises(Refused, match="disk") as refused:
        background_job.run(fake_guest, "m", "one", "true")
    assert "mkdir" in refused.value.detail


def test_an_agent_that_may_run_nothing_is_explained(fake_guest, monkeypatch):
    def blocked(*_, **__):
        raise Refused("The hypervisor could not run the program.", "Command guest-exec has been disabled")

    monkeypatch.setattr(fake_guest, "agent_run", blocked)
    with pytest.raises(Refused, match="does not let the panel run programs"):
        background_job.run(fake_guest, "m", "one", "true")

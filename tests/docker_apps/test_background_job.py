"""Long programs in a guest: begun once, looked at often, whatever happens to those who wait for them."""

import stat
import threading
import time

import pytest

from worker.guest import background_job
from worker.nodes.base import AgentSilent, Finished, NodeError, Refused

WAITS = "read line; while [ ! -e go ]; do sleep 0.05; done; echo $line"


def waits(host):
    """A program that goes on when there is a file."""
    return WAITS.replace("go", str(host.home / "go"), 1)


def go_on(host):
    (host.home / "go").touch()


def until(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


class CalledOff(Exception):
    pass


def after(times):
    """A check that goes wrong after so many looks."""
    looks = iter(range(times))

    def check():
        if next(looks, None) is None:
            raise CalledOff

    return check


def test_what_it_said_and_how_it_ended(host):
    done = background_job.run(host, "m", "one", "cat; echo and wrong >&2; exit 3", "in: $x `y` é\n")
    assert done == Finished(3, "in: $x `y` é\nand wrong\n")
    assert host.mode("/run/panel/one") == 0o700
    names = ["exit", "output", "runner", "running", "script"]
    assert sorted(path.name for path in host.file("/run/panel/one").iterdir()) == names
    assert {host.mode(f"/run/panel/one/{name}") for name in names if name != "running"} == {0o600}


def test_what_it_makes_is_for_all_who_may_come_there(host):
    """As when somebody installs packages by hand."""
    background_job.run(host, "m", "one", f"mkdir {host.home}/made")
    assert stat.S_IMODE((host.home / "made").stat().st_mode) == 0o755


def test_what_it_is_given_is_in_no_command_and_does_not_stay(host):
    background_job.run(host, "m", "one", "cat >/dev/null", "a secret")
    assert not [word for command in host.calls for word in command if "secret" in word]
    assert not [path for path in host.file("/run/panel").rglob("*") if path.is_file() and "secret" in path.read_text()]


def test_long_input_comes_in_pieces(host):
    text = "".join(f"{number} é🚀\n" for number in range(20_000))
    done = background_job.run(host, "m", "one", f"cat >{host.home}/got", text)
    assert done == Finished(0, "")
    assert (host.home / "got").read_text() == text
    prepared = [command[5] for command in host.calls if command[2] == background_job.PREPARE]
    assert prepared == sorted(set(prepared))
    assert len(prepared) > 10
    assert all(len(given) <= background_job.PIECE for given in host.given)
    assert not list(host.file("/run/panel/one").glob("piece*"))


def test_only_the_end_of_much_output_is_kept(host):
    done = background_job.run(host, "m", "one", "n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); echo $n; done", most=12)
    assert done == Finished(0, "19999\n20000\n")


def test_whoever_begins_it_again_only_looks(host):
    script = f"echo once >>{host.home}/done; {waits(host)}"
    with pytest.raises(CalledOff):
        background_job.run(host, "m", "one", script, "hello\n", check=after(2))
    go_on(host)
    for _ in range(2):
        assert background_job.run(host, "m", "one", script, "another\n") == Finished(0, "hello\n")
    assert (host.home / "done").read_text() == "once\n"
    assert background_job.run(host, "m", "two", script, "another\n") == Finished(0, "another\n")


def test_many_that_begin_it_at_once_begin_one(host):
    script = f"echo once >>{host.home}/done; {waits(host)}"
    found = []
    begin = lambda: found.append(background_job.run(host, "m", "one", script, "hello\n"))  # noqa: E731
    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    until(lambda: len([command for command in host.calls if command[2] == background_job.LOOK]) > 12)
    go_on(host)
    for thread in threads:
        thread.join()
    assert found == [Finished(0, "hello\n")] * 6
    assert (host.home / "done").read_text() == "once\n"


def test_lost_answers_change_nothing(host):
    """Also those after which the program has begun."""
    host.deaf = [True, False, True, True]
    script = f"echo once >>{host.home}/done; echo end"
    assert background_job.run(host, "m", "one", script) == Finished(0, "end\n")
    assert host.deaf == []
    assert (host.home / "done").read_text() == "once\n"


def test_an_agent_that_stays_silent_is_given_up(host, monkeypatch):
    monkeypatch.setattr(background_job, "PATIENCE", 0.3)
    host.silent = 10**6
    with pytest.raises(AgentSilent):
        background_job.run(host, "m", "one", "true")
    host.silent = 2
    assert background_job.run(host, "m", "one", "true").exit_code == 0


def test_a_guest_that_restarts_meanwhile(host):
    """Everything of it is gone then."""

    def restart():
        if host.file("/run/panel/one/running").is_symlink():
            background_job.stop(host, "m", "one")
            host.file("/run/panel/one").rename(host.home / "gone")

    with pytest.raises(background_job.Interrupted, match="restarted"):
        background_job.run(host, "m", "one", waits(host), check=restart)


def test_a_program_that_somebody_ended(host):
    def killed():
        if host.file("/run/panel/one/running").is_symlink():
            background_job.stop(host, "m", "one")

    with pytest.raises(background_job.Interrupted):
        background_job.run(host, "m", "one", waits(host), check=killed)
    background_job.stop(host, "m", "one")
    background_job.stop(host, "m", "never begun")


def test_what_is_stopped_before_it_began_does_not_begin(host):
    host.file("/run/panel/one").mkdir()
    background_job.stop(host, "m", "one")
    with pytest.raises(background_job.Interrupted):
        background_job.run(host, "m", "one", f"touch {host.home}/late")
    assert not (host.home / "late").exists()


def test_a_process_of_the_same_number_is_not_taken_for_it(host):
    folder = host.file("/run/panel/one")
    folder.mkdir()
    (folder / "running").symlink_to("1")
    with pytest.raises(background_job.Interrupted):
        background_job.run(host, "m", "one", "true")


def test_past_the_deadline_it_is_stopped(host):
    with pytest.raises(NodeError, match="did not finish"):
        background_job.run(host, "m", "one", f"{waits(host)}; touch {host.home}/late", deadline=0.3)
    go_on(host)
    with pytest.raises(background_job.Interrupted):
        background_job.run(host, "m", "one", "true")
    assert not (host.home / "late").exists()


def test_under_systemd_it_is_a_unit_of_its_own(host):
    host.file("/run/systemd/system").mkdir(parents=True)
    host.program("systemd-run", 'shift 2; setsid "$@" </dev/null >/dev/null 2>&1 &')
    assert background_job.run(host, "m", "one", "echo $((6 * 7))") == Finished(0, "42\n")
    assert host.said() == [f"systemd-run --quiet --collect /bin/sh {host.home}/run/panel/one/runner"]


def test_a_guest_that_cannot_begin_it_says_so(host):
    host.file("/run/panel").rmdir()
    host.file("/run/panel").write_text("no folder")
    with pytest.raises(Refused, match="disk") as refused:
        background_job.run(host, "m", "one", "true")
    assert "mkdir" in refused.value.detail


def test_an_agent_that_may_run_nothing_is_explained(host, monkeypatch):
    def blocked(*_, **__):
        raise Refused("The hypervisor could not run the program.", "Command guest-exec has been disabled")

    monkeypatch.setattr(host, "agent_run", blocked)
    with pytest.raises(Refused, match="does not let the panel run programs"):
        background_job.run(host, "m", "one", "true")

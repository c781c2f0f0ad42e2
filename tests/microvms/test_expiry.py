"""Time-outs of micro VMs, lost removals, and purging ended rows."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Microvm, MicrovmSnapshot, Task
from panel.services import microvms
from panel.services.microvms import state_reports
from worker.engine.purge import purge_expired
from worker.tasks import microvm_boots
from worker.tasks import microvms as tasks


def expire(microvm):
    """Let the micro VM's time-out pass and run the job."""
    microvm.expires_at = clock.now() - timedelta(seconds=1)
    session.commit()
    tasks.end_expired()


def test_expired_microvm_is_destroyed(create_microvm, run_tasks, names_on_node, reload):
    microvm = create_microvm(timeout_seconds=60)
    tasks.end_expired()
    assert microvm.state == "running"
    expire(microvm)
    tasks.end_expired()
    run_tasks()
    assert reload(microvm).ended_at is not None
    assert names_on_node() == (set(), set())
    assert session.query(Task).filter_by(kind="microvm_destroy").count() == 1


def test_expired_microvm_is_paused_when_it_says_so(create_microvm, run_tasks, reload):
    microvm = create_microvm(timeout_seconds=60, on_timeout="pause")
    expire(microvm)
    run_tasks()
    assert (reload(microvm).state, microvm.expires_at) == ("paused", None)
    tasks.end_expired()
    assert reload(microvm).state == "paused"


@pytest.mark.parametrize("state", ["stopped", "paused"])
def test_pausing_timeout_does_not_end_microvm_that_is_off(create_microvm, request_action, run_tasks, reload, state):
    microvm = create_microvm(timeout_seconds=60, on_timeout="pause")
    request_action(microvm, "stop" if state == "stopped" else "pause")
    run_tasks()
    expire(reload(microvm))
    tasks.end_expired()
    assert reload(microvm).state == state


def test_timeout_waits_while_microvm_is_being_paused(create_microvm, request_action, run_tasks, reload):
    microvm = create_microvm(timeout_seconds=60)
    request_action(microvm, "pause")
    expire(microvm)
    assert reload(microvm).state == "pausing"
    run_tasks()
    assert (reload(microvm).state, microvm.expires_at) == ("paused", None)


def test_expired_microvm_that_cannot_be_paused_is_tried_again_later(create_microvm, run_tasks, node, reload):
    microvm = create_microvm(timeout_seconds=60, on_timeout="pause")
    node.fault("save", "full", 1)
    expire(microvm)
    run_tasks()
    assert (reload(microvm).state, microvm.expires_at > clock.now()) == ("running", True)
    expire(microvm)
    run_tasks()
    assert reload(microvm).state == "paused"


def test_microvm_expires_during_another_task(create_microvm, request_action, run_tasks, cast, reload):
    microvm = create_microvm(timeout_seconds=60, on_timeout="pause")
    microvms.snapshots.create(microvm, actor="test")
    expire(microvm)
    assert reload(microvm).state == "running"
    run_tasks()
    tasks.end_expired()
    run_tasks()
    assert reload(microvm).state == "paused"


def test_start_and_resume_restart_the_timeout(create_microvm, request_action, run_tasks, reload):
    microvm = create_microvm(timeout_seconds=600)
    for off, on in (("stop", "start"), ("pause", "resume")):
        request_action(reload(microvm), off)
        run_tasks()
        before = clock.now()
        request_action(reload(microvm), on)
        run_tasks()
        assert reload(microvm).expires_at >= before + timedelta(seconds=600)
    request_action(microvm, "pause")
    run_tasks()
    request_action(reload(microvm), "resume", timeout_seconds=7)
    assert reload(microvm).expires_at <= clock.now() + timedelta(seconds=7)


def test_timeout_can_only_be_extended_where_asked(create_microvm):
    microvm = create_microvm(timeout_seconds=600)
    before = microvm.expires_at
    microvms.set_timeout(microvm, 60, only_extend=True)
    assert microvm.expires_at == before
    microvms.set_timeout(microvm, 900, only_extend=True)
    assert microvm.expires_at > before
    microvms.set_timeout(microvm, 60)
    assert microvm.expires_at < before


def test_failed_removal_is_repeated_until_nothing_is_left(microvm, request_action, run_tasks, node, reload):
    node.fault("delete", "refuse", 2)
    request_action(microvm, "destroy")
    run_tasks()
    for attempt in (1, 2):
        assert (reload(microvm).destroy_attempts, microvm.ended_at, bool(microvm.error)) == (attempt, None, True)
        tasks.retry_destroys()
        run_tasks()
        assert reload(microvm).destroy_attempts == attempt
        microvm.next_destroy_at = clock.now()
        session.commit()
        tasks.retry_destroys()
        run_tasks()
    assert reload(microvm).ended_at is not None


def test_lost_removal_is_found(microvm, request_action, run_tasks, reload):
    task = request_action(microvm, "destroy")
    microvm.next_destroy_at = clock.now()
    session.commit()
    tasks.retry_destroys()
    assert session.query(Task).filter_by(kind="microvm_destroy").count() == 1
    session.delete(task)
    session.commit()
    tasks.retry_destroys()
    run_tasks()
    assert reload(microvm).ended_at is not None


def test_microvm_is_destroyed_before_its_creation_began(call_api, microvm_body, run_tasks, names_on_node, reload):
    created = call_api("POST", "vms", **microvm_body).json["vm"]
    call_api("DELETE", f"vm/{created['id']}")
    run_tasks()
    assert session.get(Microvm, created["id"], populate_existing=True).ended_at is not None
    assert names_on_node() == (set(), set())


def test_old_ended_rows_are_purged(create_microvm, request_action, run_tasks, reload):
    old, recent = create_microvm(), create_microvm()
    session.add(MicrovmSnapshot(microvm_id=old.id, name="s"))
    for microvm in (old, recent):
        request_action(microvm, "destroy")
    run_tasks()
    reload(old).ended_at -= state_reports.ENDED_ROW_RETENTION
    session.commit()
    purge_expired()
    assert session.query(Microvm.id).all() == [(recent.id,)]


def test_jobs_use_indexes_of_live_rows(rolled_back_app, queries):
    tasks.end_expired()
    tasks.retry_destroys()
    microvm_boots.request_checks()
    if session.get_bind().dialect.name != "sqlite":
        pytest.skip("plans of empty tables on PostgreSQL are sequential scans")
    statements = [statement for statement in queries if "FROM microvms" in statement]
    assert len(statements) == 3
    plans = [explain(statement) for statement in statements]
    assert "ix_microvms_live_expires_at" in plans[0]
    assert "ix_microvms_next_destroy_at" in plans[1]
    assert "ix_microvms_boot_ends_at" in plans[2]


def explain(statement):
    values = (None,) * statement.count("?")
    rows = session.connection().exec_driver_sql(f"explain query plan {statement}", values)
    return " ".join(row[3] for row in rows)

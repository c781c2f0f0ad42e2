"""Closing consoles on revoked access, listing open ones, and their audit entries."""

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

from sqlalchemy import select

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import AuditEntry, ConsoleSession, Instance, Role, Token
from panel.services import consoles, instances
from panel.web import audit_view
from tests.instances.consoles.sessions import get_created_session, list_console_sessions


def find_close_reason(row):
    session.expire_all()
    return consoles.find_sessions_to_close([row.id], lambda role: role in ("full", "support")).get(row.id)


def test_permitted_consoles_stay_open(open_session):
    for row in (open_session(), open_session("shell"), open_session(caller="admin"), open_session("shell", "admin")):
        assert find_close_reason(row) is None


def test_machine_state_changes_close_consoles(open_session, running_instance, cast, run_tasks):
    screen, shell, operators = open_session(), open_session("shell"), open_session(caller="admin")
    instance = session.get(Instance, running_instance.id)
    instance.suspended_reason = "admin"
    session.commit()
    assert (find_close_reason(screen), find_close_reason(operators)) == ("The instance was suspended.", None)
    instance = session.get(Instance, running_instance.id)
    instance.suspended_reason, instance.power = None, "off"
    session.commit()
    assert (find_close_reason(screen), find_close_reason(shell)) == (None, "The instance was powered off.")
    instance = session.get(Instance, running_instance.id)
    instance.power, instance.enable_vnc = "on", False
    session.commit()
    assert (find_close_reason(screen), find_close_reason(shell)) == (
        "The console of this instance was turned off.",
        None,
    )
    session.get(Instance, running_instance.id).enable_vnc = True
    instances.destroy(session.get(Instance, running_instance.id), actor="owner@example.com")
    session.commit()
    assert find_close_reason(screen) == find_close_reason(operators) == "The machine is being destroyed or reinstalled."
    ids = [screen.id]
    run_tasks()
    assert consoles.find_sessions_to_close(ids, lambda role: True) == {ids[0]: "The instance was destroyed."}


def test_token_revocation_closes_its_consoles(open_session, api_as):
    row = open_session()
    token = session.scalar(select(Token).where(Token.id == row.opened_by["token_id"]))
    session.delete(token)
    session.commit()
    assert find_close_reason(row) == "The token that opened this console is no longer valid."


def test_sign_out_closes_consoles_of_browser(open_session, browser_as, running_instance):
    browser = browser_as("owner")
    browser.post(f"/instances/{running_instance.id}/console")
    row = open_session(row=list_console_sessions()[-1])
    assert find_close_reason(row) is None
    browser.post("/sign-out")
    assert find_close_reason(row) == "You signed out."


def test_lost_member_permission_closes_console(open_session, browser_as, running_instance, cast):
    role = session.scalar(select(Role).where(Role.name == "Viewer"))
    permissions = role.permissions
    role.permissions = [*permissions, "instances.console"]
    session.commit()
    browser_as("viewer").post(f"/instances/{running_instance.id}/console")
    row = open_session(row=list_console_sessions()[-1])
    assert (row.opened_by["person_kind"], find_close_reason(row)) == ("member", None)
    session.scalar(select(Role).where(Role.name == "Viewer")).permissions = permissions
    session.commit()
    assert find_close_reason(row) == "You may no longer open consoles of this instance."


def test_lost_operator_role_closes_console(open_session, browser_as, running_instance, cast):
    browser_as("admin").post(f"/admin/instances/{running_instance.id}/console")
    row = open_session(row=list_console_sessions()[-1])
    assert find_close_reason(row) is None
    cast.admin.operator_role = "read_only"
    session.commit()
    assert find_close_reason(row) == "You may no longer open consoles of this instance."


def test_account_suspension_closes_consoles(open_session, cast):
    row = open_session()
    cast.owner.suspended_at = clock.now()
    session.commit()
    assert find_close_reason(row) == "You may no longer open consoles of this instance."


def test_operator_lists_and_closes_consoles(open_session, browser_as, running_instance):
    row = open_session()
    page = browser_as("admin").get("/admin/consoles").text
    assert running_instance.display_name in page
    assert "192.0.2.7" in page
    assert "owner@example.com" in page
    assert browser_as("admin").post(f"/admin/consoles/{row.id}/close").status_code == 303
    assert find_close_reason(row) == "An operator closed the console."
    assert browser_as("owner").get("/admin/consoles").status_code == 403


def test_close_check_has_constant_query_count(open_session, queries):
    ids = [open_session().id for _ in range(5)]

    def count_queries(some):
        session.expire_all()
        queries.clear()
        consoles.find_sessions_to_close(some, lambda role: True)
        return len(queries)

    count_queries(ids)
    assert count_queries(ids[:1]) == count_queries(ids)


def test_console_open_and_close_are_audited(open_session, running_instance):
    row = open_session()
    consoles.record_opened(row.id)
    consoles.record_ended(row.id, reason="left", message="The browser closed the console.", bytes_in=7, bytes_out=9)
    session.commit()
    entries = session.scalars(
        select(AuditEntry).where(AuditEntry.action.startswith("console.")).order_by(AuditEntry.id)
    )
    began, over = entries = entries.all()
    assert (began.action, began.person, began.object_id, began.ip) == (
        "console.opened",
        "owner@example.com",
        running_instance.id,
        "192.0.2.7",
    )
    assert (over.action, over.changes["reason"], over.changes["seconds"] >= 0) == ("console.closed", "left", True)
    assert [audit_view.describe_entry(entry) for entry in entries] == [
        "Console opened",
        "Console closed after < 1 s",
    ]
    assert over.account_id == running_instance.account_id
    consoles.record_ended(row.id, reason="left", message="again")
    assert session.get(ConsoleSession, row.id).ended_message == "The browser closed the console."


def test_consoles_of_a_dead_process_are_recorded_as_closed(open_session, run_tasks, monkeypatch):
    row = open_session()
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(minutes=1))
    jobs.enqueue_call("worker.tasks.consoles.sweep_sessions")
    run_tasks()
    row = session.get(ConsoleSession, row.id)
    assert (row.state, row.ended_reason) == ("ended", "lost")


def test_sessions_of_last_month_are_purged(open_session, monkeypatch):
    open_session()
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(days=31))
    consoles.purge_expired()
    assert list_console_sessions() == []


def test_console_secrets_are_stored_encrypted(api_as, running_instance, inline_workers):
    console_session = get_created_session(api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc"))
    get_created_session(api_as("owner", "GET", f"/api/instance/{running_instance.id}/webssh"))
    rows = session.connection().exec_driver_sql("select * from console_sessions").mappings().all()
    [secret] = parse_qs(urlsplit(console_session["url"]).query)["session"]
    assert len(rows) == 2
    for text in (secret, console_session["password"], "PRIVATE KEY"):
        assert not any(text in str(dict(row)) for row in rows)

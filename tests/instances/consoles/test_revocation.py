"""What ends a console, who sees which are open, and what is kept of them."""

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

from sqlalchemy import select

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import AuditEntry, ConsoleSession, Instance, Role, Token
from panel.services import consoles, instances
from panel.web import audit_view
from tests.instances.consoles.conftest import minted, rows


def why(row):
    session.expire_all()
    return consoles.unwelcome([row.id], lambda role: role in ("full", "support")).get(row.id)


def test_consoles_that_are_allowed_stay_open(opened):
    for row in (opened(), opened("shell"), opened(who="admin"), opened("shell", "admin")):
        assert why(row) is None


def test_what_happens_to_the_machine_closes_its_consoles(opened, running, cast, work):
    screen, shell, operators = opened(), opened("shell"), opened(who="admin")
    instance = session.get(Instance, running.id)
    instance.suspended_reason = "admin"
    session.commit()
    assert (why(screen), why(operators)) == ("The machine was suspended.", None)
    instance = session.get(Instance, running.id)
    instance.suspended_reason, instance.power = None, "off"
    session.commit()
    assert (why(screen), why(shell)) == (None, "The machine was turned off.")
    instance = session.get(Instance, running.id)
    instance.power, instance.enable_vnc = "on", False
    session.commit()
    assert (why(screen), why(shell)) == ("The screen of the machine was turned off.", None)
    session.get(Instance, running.id).enable_vnc = True
    instances.destroy(session.get(Instance, running.id), actor="owner@example.com")
    session.commit()
    assert why(screen) == why(operators) == "The machine is being destroyed or installed anew."
    ids = [screen.id]
    work()
    assert consoles.unwelcome(ids, lambda role: True) == {ids[0]: "The machine was destroyed."}


def test_a_token_that_is_revoked_closes_what_it_opened(opened, as_):
    row = opened()
    token = session.scalar(select(Token).where(Token.id == row.who["token_id"]))
    session.delete(token)
    session.commit()
    assert why(row) == "The token that opened this console is no longer valid."


def test_a_sign_out_closes_what_the_browser_opened(opened, browse, running):
    browser = browse("owner")
    browser.post(f"/instances/{running.id}/console")
    row = opened(row=rows()[-1])
    assert why(row) is None
    browser.post("/sign-out")
    assert why(row) == "You signed out."


def test_a_member_who_loses_the_right_or_the_reach_loses_the_console(opened, browse, running, cast):
    role = session.scalar(select(Role).where(Role.name == "Viewer"))
    held = role.permissions
    role.permissions = [*held, "instances.console"]
    session.commit()
    browse("viewer").post(f"/instances/{running.id}/console")
    row = opened(row=rows()[-1])
    assert (row.who["person_kind"], why(row)) == ("member", None)
    session.scalar(select(Role).where(Role.name == "Viewer")).permissions = held
    session.commit()
    assert why(row) == "You may no longer open consoles of this machine."


def test_an_operator_who_is_none_any_more_loses_the_console(opened, browse, running, cast):
    browse("admin").post(f"/admin/instances/{running.id}/console")
    row = opened(row=rows()[-1])
    assert why(row) is None
    cast.admin.operator_role = "read_only"
    session.commit()
    assert why(row) == "You may no longer open consoles of this machine."


def test_a_suspended_account_keeps_no_console(opened, cast):
    row = opened()
    cast.owner.suspended_at = clock.now()
    session.commit()
    assert why(row) == "You may no longer open consoles of this machine."


def test_operators_list_and_close_them(opened, browse, running):
    row = opened()
    page = browse("admin").get("/admin/consoles").text
    assert running.display_name in page
    assert "192.0.2.7" in page
    assert "owner@example.com" in page
    assert browse("admin").post(f"/admin/consoles/{row.id}/close").status_code == 303
    assert why(row) == "An operator closed the console."
    assert browse("owner").get("/admin/consoles").status_code == 403


def test_looking_at_many_consoles_takes_as_many_questions_as_at_one(opened, queries):
    ids = [opened().id for _ in range(5)]

    def asked(some):
        session.expire_all()
        queries.clear()
        consoles.unwelcome(some, lambda role: True)
        return len(queries)

    asked(ids)
    assert asked(ids[:1]) == asked(ids)


def test_openings_and_endings_are_in_the_audit_log(opened, running):
    row = opened()
    consoles.is_open(row.id)
    consoles.ended(row.id, reason="left", message="The browser closed the console.", bytes_in=7, bytes_out=9)
    session.commit()
    entries = session.scalars(
        select(AuditEntry).where(AuditEntry.action.startswith("console.")).order_by(AuditEntry.id)
    )
    began, over = entries = entries.all()
    assert (began.action, began.person, began.object_id, began.ip) == (
        "console.opened",
        "owner@example.com",
        running.id,
        "192.0.2.7",
    )
    assert (over.action, over.changes["reason"], over.changes["seconds"] >= 0) == ("console.closed", "left", True)
    assert [audit_view.words(entry)[:15] for entry in entries] == ["A screen opened", "A screen closed"]
    assert over.account_id == running.account_id
    consoles.ended(row.id, reason="left", message="again")
    assert session.get(ConsoleSession, row.id).ended_message == "The browser closed the console."


def test_a_process_that_died_leaves_no_console_open_in_the_books(opened, work, monkeypatch):
    row = opened()
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(minutes=1))
    jobs.call("worker.tasks.consoles.tidy")
    work()
    row = session.get(ConsoleSession, row.id)
    assert (row.state, row.ended_reason) == ("ended", "lost")


def test_sessions_of_last_month_are_forgotten(opened, monkeypatch):
    opened()
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(days=31))
    consoles.tidy()
    assert rows() == []


def test_secrets_lie_encrypted(as_, running, workers):
    found = minted(as_("owner", "GET", f"/api/instance/{running.id}/novnc"))
    minted(as_("owner", "GET", f"/api/instance/{running.id}/webssh"))
    kept = session.connection().exec_driver_sql("select * from console_sessions").mappings().all()
    [secret] = parse_qs(urlsplit(found["url"]).query)["session"]
    assert len(kept) == 2
    for word in (secret, found["password"], "PRIVATE KEY"):
        assert not any(word in str(dict(row)) for row in kept)

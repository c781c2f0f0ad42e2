"""The inbox, its settings and the badge on the pages."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import InboxMessage


def test_inbox_page_lists_and_marks(browser_as, report):
    browser = browser_as("owner")
    assert "Your inbox is empty" in browser.get("/notifications").text
    for number in range(2):
        report(f"task:{number}", path=f"/tasks?n={number}")
    page = browser.get("/notifications").text
    assert page.count("Backup of web-1 failed: disk full") == 2
    assert 'aria-label="Inbox: 2 unread"' in page
    first = session.scalars(select(InboxMessage).order_by(InboxMessage.id)).first()
    answer = browser.post(f"/notifications/{first.id}/open")
    assert (answer.status_code, answer.location) == (303, "/tasks?n=0")
    assert 'aria-label="Inbox: 1 unread"' in browser.get("/").text
    assert "Nothing matches" in browser.get("/notifications?kind=traffic").text
    assert browser.get("/notifications?unread=true").text.count("Backup of web-1") == 1
    assert browser.post("/notifications/read").status_code == 303
    assert 'aria-label="Inbox"' in browser.get("/notifications/unread").text
    assert browser_as("outsider").post(f"/notifications/{first.id}/read").status_code == 404


def test_preferences_form_saves_choices(browser_as, api_as):
    browser = browser_as("owner")
    assert "Always on." in browser.get("/notifications/preferences").text
    data = {"inbox": ["traffic", "alert"], "mail": ["task_failed"]}
    assert browser.post("/notifications/preferences", data=data).status_code == 303
    rows = api_as("owner", "GET", "/api/notification-preferences").json["preferences"]
    chosen = {row["kind"]: (row["inbox"], row["mail"]) for row in rows}
    assert (chosen["traffic"], chosen["task_failed"]) == ((True, False), (False, True))
    assert (chosen["security"], chosen["backup"]) == ((True, True), (False, False))

"""The profile: who I am, my password, where I am signed in."""

from sqlalchemy import select

from panel.db import session
from panel.models import SignIn
from panel.services import accounts
from tests.cast import PASSWORD

NEW = "another long password"


def test_change_the_profile(browse, cast):
    sent = {"first_name": "Ada", "last_name": "", "company_name": "", "timezone": "Europe/Berlin"}
    assert browse("owner").post("/profile", data=sent).status_code == 303
    assert (cast.owner.name, cast.owner.company_name, cast.owner.timezone) == ("Ada", None, "Europe/Berlin")


def test_an_unknown_time_zone(browse, cast):
    answer = browse("owner").post("/profile", data={"timezone": "Mars/Olympus"})
    assert answer.status_code == 422
    assert "Choose a time zone" in answer.text
    assert cast.owner.timezone == "UTC"


def test_change_the_password(browse, cast):
    other, mine = browse("owner"), browse("owner")
    answer = mine.post("/profile/password", data={"current": PASSWORD, "new": NEW, "again": NEW})
    assert answer.status_code == 303
    assert mine.get("/profile").status_code == 200
    assert other.get("/profile").status_code == 303
    assert accounts.check_password(cast.owner.email, NEW)
    assert accounts.check_password(cast.owner.email, PASSWORD) is None


def test_a_password_is_not_changed(browse, cast):
    for current, new, again, message in (
        ("wrong", NEW, NEW, "This is not your password."),
        (PASSWORD, "short", "short", "Length must be between 12 and 1024."),
        (PASSWORD, NEW, NEW + "x", "The two are not the same."),
    ):
        answer = browse("owner").post("/profile/password", data={"current": current, "new": new, "again": again})
        assert answer.status_code == 422
        assert message in answer.text
        assert NEW not in answer.text
    assert accounts.check_password(cast.owner.email, PASSWORD)


def test_end_sessions(browse, cast):
    first, second, mine = browse("owner"), browse("owner"), browse("owner")
    stranger = browse("outsider")
    rows = session.scalars(select(SignIn).where(SignIn.account_id == cast.owner.id).order_by(SignIn.id)).all()
    assert mine.get("/profile").text.count("Another program") == 3
    assert mine.post(f"/profile/sessions/{rows[0].id}/end").status_code == 303
    assert (first.get("/").status_code, second.get("/").status_code) == (303, 200)
    stranger.post(f"/profile/sessions/{rows[1].id}/end")
    assert second.get("/").status_code == 200
    mine.post("/profile/sessions/end-others")
    assert (second.get("/").status_code, mine.get("/").status_code) == (303, 200)
    assert stranger.get("/").status_code == 200

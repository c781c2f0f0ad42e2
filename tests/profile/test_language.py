"""The language that a person chooses, on pages and in mails."""

from lxml import html

from panel.core import mail
from panel.core.db import session
from panel.services import sessions
from tests.support.cast import PASSWORD
from tests.support.pseudo_language import bracket, pseudo_language  # noqa: F401

ENGLISH_BROWSER = {"Accept-Language": "en"}


def get_page_language(browser, headers=ENGLISH_BROWSER):
    return html.fromstring(browser.get("/profile", headers=headers).text).get("lang")


def sign_in(browser, headers):
    data = {"email": "owner@example.com", "password": PASSWORD}
    assert browser.post("/sign-in", data=data, headers=headers).status_code == 303


def get_subject(sent_mails):
    mail.send("owner@example.com", "password_reset")
    session.commit()
    return sent_mails("owner@example.com")[-1]["Subject"]


def test_chosen_language_is_used_instead_of_browser_language(browser_as, cast, pseudo_language):
    browser = browser_as("owner")
    assert get_page_language(browser, pseudo_language) == "eo"
    for chosen, language in (("en", "en"), ("eo", "eo"), ("", "eo")):
        sent = {"timezone": "UTC", "language": chosen}
        assert browser.post("/profile", data=sent).status_code == 303
        assert cast.owner.language == (chosen or None)
        assert get_page_language(browser, pseudo_language) == language
    assert get_page_language(browser) == "en"


def test_language_that_the_panel_no_longer_has_is_ignored(browser_as, cast, sent_mails):
    cast.owner.language = cast.owner.browser_language = "eo"
    session.commit()
    assert get_page_language(browser_as("owner")) == "en"
    assert get_subject(sent_mails) == "Reset your password"


def test_api_changes_language(api_as, cast, pseudo_language):
    assert api_as("owner", "PATCH", "/api/profile", json={"language": "eo"}).json["data"]["language"] == "eo"
    refusal = api_as("owner", "PATCH", "/api/profile", json={"language": "de"})
    assert (refusal.status_code, refusal.json["errors"]) == (422, {"language": ["Must be one of: en, eo."]})
    assert api_as("owner", "PATCH", "/api/profile", json={"language": None}).json["data"]["language"] is None


def test_impersonating_operator_keeps_own_language(browser_as, cast, pseudo_language):
    cast.owner.language = "eo"
    secret = sessions.start(cast.owner, ip="127.0.0.1", user_agent="test", impersonator=cast.admin)
    session.commit()
    browser = browser_as()
    with browser.session_transaction() as cookie:
        cookie["_user_id"] = secret
    assert get_page_language(browser) == "en"
    cast.admin.language, cast.owner.language = "eo", "en"
    session.commit()
    assert get_page_language(browser) == "eo"


def test_mail_is_in_the_language_that_its_recipient_has_chosen(cast, sent_mails, pseudo_language):
    cast.owner.language, cast.owner.browser_language = "eo", "en"
    session.commit()
    assert get_subject(sent_mails) == bracket("Reset your password")


def test_mail_of_worker_is_in_the_browser_language_of_last_sign_in(browser_as, cast, sent_mails, pseudo_language):
    sign_in(browser_as(), pseudo_language)
    assert cast.owner.browser_language == "eo"
    assert get_subject(sent_mails) == bracket("Reset your password")
    sign_in(browser_as(), {"Accept-Language": "fr"})  # a language that the panel lacks changes nothing
    assert cast.owner.browser_language == "eo"


def test_mail_to_unknown_address_is_in_the_language_of_its_sender(browser_as, cast, sent_mails, pseudo_language):
    cast.owner.language = "eo"
    session.commit()
    sent = {"email": "new@example.com", "role_id": "preset:Read only", "reach": "all"}
    assert browser_as("owner").post("/team/invite", data=sent, headers=ENGLISH_BROWSER).status_code == 303
    assert sent_mails("new@example.com")[-1]["Subject"] == bracket("owner@example.com invites you to their team")

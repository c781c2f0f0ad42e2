"""Texts of mails: changed by operators, checked, previewed, and never a reason that a mail is not sent."""

from string import Formatter

import pytest
from sqlalchemy import select

from panel.core import languages
from panel.core.db import session
from panel.models import MailTemplate
from panel.services import mail_templates

LIST_PATH = "/api/v1/email-templates"


def find_path(kind="password_reset", language="en"):
    template = next(row for row in mail_templates.list_all() if (row.kind, row.language) == (kind, language))
    return f"/api/v1/email-template/{template.id}"


def request_reset(browser_as, sent_mails):
    browser_as().post("/forgot-password", data={"email": "owner@example.com"})
    return sent_mails("owner@example.com")[-1]


def test_every_built_in_text_has_its_placeholders(cast):
    rows = mail_templates.list_all()
    assert len(rows) == len(mail_templates.KINDS) * len(languages.list_languages())
    for row in rows:
        mail_templates.ensure_valid(row.kind, row.subject, row.text)
        used = {name for _, name, _, _ in Formatter().parse(row.subject + row.text) if name}
        assert used == set(mail_templates.KINDS[row.kind].examples), row
        subject, text = mail_templates.preview(row.kind, row.language, row.subject, row.text)
        assert "{" not in subject + text
    german = {row.kind: row.subject for row in rows if row.language == "de"}
    assert german["password_reset"] != "Reset your password"


def test_changed_text_is_sent_until_it_is_reset(api_as, browser_as, sent_mails):
    assert {row["is_custom"] for row in api_as("admin", "GET", LIST_PATH).json["data"]} == {False}
    body = {"subject": "Hello {email} of {brand}", "text": "Dear {email},\n\nNew password: {link}\n\n{{{minutes}}}"}
    answer = api_as("admin", "PATCH", find_path(), json=body)
    assert answer.json["data"]["is_custom"] is True
    mail = request_reset(browser_as, sent_mails)
    assert mail["Subject"] == "Hello owner@example.com of Panel"
    text = mail.get_body(("plain",)).get_content()
    assert text.startswith("Dear owner@example.com,\n\nNew password: http://localhost:8000/reset-password/")
    assert text.strip().endswith("{60}")
    assert '<a class="button"' in mail.get_body(("html",)).get_content()
    answer = api_as("admin", "PATCH", find_path(), json={"subject": None, "text": None})
    assert answer.json["data"]["is_custom"] is False
    assert session.scalars(select(MailTemplate)).all() == []
    assert request_reset(browser_as, sent_mails)["Subject"] == "Reset your password"


def test_text_of_another_language_is_not_sent(api_as, browser_as, sent_mails):
    api_as("admin", "PATCH", find_path(language="de"), json={"subject": "Neues Passwort"})
    assert request_reset(browser_as, sent_mails)["Subject"] == "Reset your password"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"subject": "{password}"}, "subject"),
        ({"text": "{link} {email.__class__}"}, "text"),
        ({"text": "{link} {email!r}"}, "text"),
        ({"text": "{link} {email:>99999999}"}, "text"),
        ({"text": "{link} {0}"}, "text"),
        ({"text": "{link} }"}, "text"),
        ({"text": "No link."}, "text"),
        ({"subject": "two\nlines"}, "subject"),
    ],
)
def test_unknown_placeholders_are_refused(api_as, body, field):
    answer = api_as("admin", "PATCH", find_path(), json=body)
    assert answer.status_code == 422
    assert field in answer.json["errors"]


def test_template_code_is_only_text(api_as, browser_as, sent_mails):
    code = "{{{{ 7 * 7 }}}} {{% raw %}} {link}"
    assert api_as("admin", "PATCH", find_path(), json={"text": code}).status_code == 200
    text = request_reset(browser_as, sent_mails).get_body(("plain",)).get_content()
    assert text.startswith("{{ 7 * 7 }} {% raw %} http://")


@pytest.mark.parametrize("text", ["{unknown} {link}", "{", "{link.x}", "{link!r:9}"])
def test_broken_text_stops_no_mail(cast, browser_as, sent_mails, text):
    """Such a row cannot be made by the panel; an earlier version may have left it."""
    session.add(MailTemplate(kind="password_reset", language="en", subject="Broken", text=text))
    session.commit()
    mail = request_reset(browser_as, sent_mails)
    assert "/reset-password/" in mail.get_body(("plain",)).get_content()


def test_values_cannot_add_lines():
    brand = type("Brand", (), {"name": "Panel", "url": "https://panel.example.com"})
    facts = dict(mail_templates.EXAMPLE_ALERT) | {"name": "x\n\nClick: https://evil.example.net"}
    values = mail_templates.build_values("alert_firing", facts, "en", brand)
    assert values["name"] == "x Click: https://evil.example.net"


def test_pages_preview_save_and_reset(browser_as, cast):
    browser = browser_as("admin")
    assert "Password reset" in browser.get("/admin/mail-templates").text
    path = find_path().replace("/api/v1/email-template", "/admin/mail-templates")
    form = {"subject": "For {email}", "text": "Click: {link}"}
    page = browser.post(path, data=form | {"preview": "1"}).text
    assert "For ada@example.com" in page
    assert "http://localhost:8000/example" in page
    assert session.scalars(select(MailTemplate)).all() == []
    assert browser.post(path, data={"subject": "{x}", "text": "{link}"}).status_code == 422
    assert browser.post(path, data=form).status_code == 303
    assert session.scalars(select(MailTemplate.subject)).all() == ["For {email}"]
    assert browser.post(f"{path}/reset").status_code == 303
    assert session.scalars(select(MailTemplate)).all() == []

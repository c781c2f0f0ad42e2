"""Mass mail templates in the admin API and on pages."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import MassMail, MassMailTemplate

PATH = "/api/v1/mass-mail/templates"
BODY = {"name": "Prices", "subject": "News for {name}", "text": "Dear {name},\n\nnew prices for {email}."}


@pytest.fixture
def template(api_as):
    return api_as("admin", "POST", PATH, json=BODY).json["data"]


def test_template_is_listed_changed_and_deleted(api_as, template):
    path = f"/api/v1/mass-mail/template/{template['id']}"
    assert {key: template[key] for key in BODY} == BODY
    assert api_as("admin", "PATCH", path, json={"subject": "Other"}).json["data"]["subject"] == "Other"
    assert api_as("admin", "GET", path).json["data"]["text"] == BODY["text"]
    assert [row["id"] for row in api_as("admin", "GET", PATH).json["data"]] == [template["id"]]
    assert api_as("admin", "DELETE", path).status_code == 200
    assert api_as("admin", "GET", path).status_code == api_as("admin", "DELETE", path).status_code == 404


@pytest.mark.parametrize(("field", "value"), [("subject", "{password}"), ("text", "{"), ("name", "Prices")])
def test_invalid_template_is_a_field_error(api_as, template, field, value):
    answer = api_as("admin", "POST", PATH, json=BODY | {"name": "Other", field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    other = api_as("admin", "POST", PATH, json=BODY | {"name": "Other"}).json["data"]
    answer = api_as("admin", "PATCH", f"/api/v1/mass-mail/template/{other['id']}", json={field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_template_keeps_its_name(api_as, template):
    path = f"/api/v1/mass-mail/template/{template['id']}"
    assert api_as("admin", "PATCH", path, json={"name": BODY["name"], "text": "new"}).status_code == 200


def test_pages_save_a_mass_mail_as_template_and_use_it(browser_as, cast):
    browser = browser_as("admin")
    assert "No templates yet" in browser.get("/admin/mass-mail-templates").text
    mail = {"subject": BODY["subject"], "text": BODY["text"], "mails_per_minute": 60, "group_id": ""}
    mass_mail = browser.post("/admin/mass-mails/new", data=mail).location
    assert "Save as template" in browser.get(mass_mail).text
    new = f"/admin/mass-mail-templates/new?mass_mail_id={mass_mail.rpartition('/')[2]}"
    assert "new prices for {email}" in browser.get(new).text
    assert browser.post("/admin/mass-mail-templates/new", data=BODY).status_code == 303
    assert browser.post("/admin/mass-mail-templates/new", data=BODY).status_code == 422
    row = session.scalars(select(MassMailTemplate)).one()
    assert "Use template" in browser.get("/admin/mass-mails/new").text
    form = browser.get(f"/admin/mass-mails/new?template_id={row.id}").text
    assert 'value="News for {name}"' in form
    path = f"/admin/mass-mail-templates/{row.id}"
    assert browser.post(path, data=BODY | {"name": "Renamed"}).status_code == 303
    assert "Renamed" in browser.get("/admin/mass-mail-templates").text
    assert browser.post(f"{path}/delete").status_code == 303
    assert session.scalars(select(MassMail.name)).all() == ["News for {name}"]


def test_unknown_template_is_not_found(browser_as, cast):
    assert browser_as("admin").get("/admin/mass-mails/new?template_id=unknown").status_code == 404


def test_page_of_an_unknown_mass_mail_shows_an_empty_form(browser_as, cast):
    assert browser_as("admin").get("/admin/mass-mail-templates/new?mass_mail_id=unknown").status_code == 200

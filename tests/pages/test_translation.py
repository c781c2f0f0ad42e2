"""The language of pages and mails, which the browser chooses."""

from datetime import UTC, datetime

import pytest
from lxml import html

from panel.core import mail
from panel.core.db import session
from panel.core.formatting import format_datetime, format_time
from panel.web.translation import gettext, gettext_markup, ngettext, translate
from tests.support.pseudo_language import bracket, pseudo_language  # noqa: F401


@pytest.mark.parametrize(
    ("header", "expected"),
    [("eo, en;q=0.5", "eo"), ("fr, eo;q=0.3", "eo"), ("fr", "en"), ("en, eo;q=0.9", "en"), ("", "en")],
)
def test_accept_language_chooses_the_catalog(browser_as, pseudo_language, header, expected):
    page = browser_as().get("/sign-in", headers={"Accept-Language": header})
    assert html.fromstring(page.text).get("lang") == expected
    assert (bracket("Sign in") in page.text) == (expected == "eo")


def test_pages_without_catalog_are_english(browser_as):
    page = browser_as().get("/sign-in", headers={"Accept-Language": "eo"})
    assert '<html lang="en">' in page.text


def test_mails_have_language_of_request(browser_as, cast, sent_mails, pseudo_language):
    browser_as().post("/forgot-password", data={"email": "owner@example.com"}, headers=pseudo_language)
    letter = sent_mails("owner@example.com")[-1]
    plain, page = (letter.get_body((kind,)).get_content() for kind in ("plain", "html"))
    assert letter["Subject"] == bracket("Reset your password")
    assert bracket("Choose a new password") in plain
    assert bracket("Someone requested a new password for owner@example.com.") in plain
    assert '<html lang="eo">' in page


def test_mails_without_a_request_are_english(cast, sent_mails, pseudo_language):
    mail.send("owner@example.com", "password_reset")
    session.commit()
    assert sent_mails("owner@example.com")[-1]["Subject"] == "Reset your password"


def test_gettext_inserts_parameters_and_percent_signs(app):
    with app.test_request_context():
        assert gettext("100%% of %(name)s", name="<b>") == "100% of <b>"
        assert gettext("100%%") == "100%"
        assert gettext("Add %(text)s", text="a disk") == gettext_markup("Add %(text)s", text="a disk") == "Add a disk"
        assert ngettext("%(num)s row", "%(num)s rows", 1) == "1 row"
        assert ngettext("%(num)s row", "%(num)s rows", 1200) == "1,200 rows"
        assert translate("{plain} 100%") == "{plain} 100%"


def test_template_text_parameters_are_escaped(app):
    source = """{{ _("Name %(name)s", name="<b>") }} {% trans name="<i>" %}Is <b>{{ name }}</b>{% endtrans %};
    {% trans count=2 %}{{ count }} row{% pluralize %}{{ count }} rows{% endtrans %} {{ _("5%%") }}"""
    with app.test_request_context():
        text = app.jinja_env.from_string(source).render()
    assert " ".join(text.split()) == "Name &lt;b&gt; Is <b>&lt;i&gt;</b>; 2 rows 5%"


def test_dates_are_in_the_language():
    moment = datetime(2026, 5, 3, 10, 30, tzinfo=UTC)
    assert format_time(moment) == "03 May 2026, 10:30"
    assert format_time(moment, "Europe/Berlin", "de") == "3. Mai 2026, 12:30"
    assert format_datetime(moment) == "Sun 03 May 2026, 10:30:00 UTC"
    assert format_datetime(moment, "Europe/Berlin", "fr") == "dim. 3 mai 2026, 12:30:00 CEST"

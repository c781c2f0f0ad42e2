"""Settings of the platform on the operators' page."""

import re
from types import SimpleNamespace

import pytest

from panel.core.db import session
from panel.models import Account
from panel.ratelimit import api_budget
from panel.schemas.settings import SystemSettings
from panel.services import settings

SETTINGS_PATH = "/admin/settings"


@pytest.fixture
def operator_browser(browser_as):
    return browser_as("admin")


def find_field_names(page):
    """Return the names of the form's fields."""
    return set(re.findall(r'name="(\w+)"', page.partition('id="form"')[2]))


def test_settings_page_shows_all_settings_in_use(rolled_back_app, operator_browser):
    """Rate limits that no operation uses are not shown."""
    page = operator_browser.get(SETTINGS_PATH).text
    unused = {f"rate_limit_{name}" for name in set(api_budget.API_BUDGETS) - set(api_budget.list_budgets_in_use())}
    assert find_field_names(page) & SystemSettings().fields.keys() == SystemSettings().fields.keys() - unused
    for heading in ("Sign-in", "Consoles", "Billing", "Rate limits"):
        assert heading in page


def test_settings_page_shows_only_budgets_in_use(rolled_back_app, operator_browser, monkeypatch):
    views = {
        name: view
        for name, view in rolled_back_app.view_functions.items()
        if getattr(view, "budget", None) != "metrics"
    }
    monkeypatch.setattr(rolled_back_app, "view_functions", views)
    assert "rate_limit_metrics" not in find_field_names(operator_browser.get(SETTINGS_PATH).text)
    monkeypatch.setitem(views, "scrape", SimpleNamespace(budget="metrics"))
    assert "rate_limit_metrics" in find_field_names(operator_browser.get(SETTINGS_PATH).text)


def test_hidden_settings_are_unchanged_by_form(operator_browser):
    settings.update({"rate_limit_metrics": 7, "rate_limit_polls": 7})
    session.commit()
    assert operator_browser.post(SETTINGS_PATH, data={"rate_limit_polls": ""}).status_code == 303
    loaded_settings = settings.load()
    assert (loaded_settings.rate_limit_metrics, loaded_settings.rate_limit_polls) == (7, 1200)


def test_settings_are_saved_and_shown(operator_browser):
    sent = {name: str(value) for name, value in vars(settings.load()).items()}
    sent |= {"vnc_allowed_sources": "192.0.2.0/24", "billing_enabled": ["false", "true"], "rate_limit_polls": "70"}
    assert operator_browser.post(SETTINGS_PATH, data=sent).headers["Location"] == SETTINGS_PATH
    loaded_settings = settings.load()
    assert (loaded_settings.vnc_allowed_sources, loaded_settings.billing_enabled, loaded_settings.rate_limit_polls) == (
        "192.0.2.0/24",
        True,
        70,
    )
    page = operator_browser.get(SETTINGS_PATH).text
    assert 'value="192.0.2.0/24"' in page
    assert (
        operator_browser.post(
            SETTINGS_PATH, data=sent | {"vnc_allowed_sources": "", "rate_limit_polls": ""}
        ).status_code
        == 303
    )
    loaded_settings = settings.load()
    assert (loaded_settings.vnc_allowed_sources, loaded_settings.billing_enabled, loaded_settings.rate_limit_polls) == (
        "",
        True,
        1200,
    )


def test_form_error_appears_at_field_and_saves_nothing(operator_browser):
    sent = {"vnc_allowed_sources": "192.0.2.0/24, nonsense", "rate_limit_polls": "70"}
    answer = operator_browser.post(SETTINGS_PATH, data=sent)
    assert (answer.status_code, 'id="wrong-vnc_allowed_sources"' in answer.text) == (422, True)
    assert "nonsense is neither an IP address nor a network" in answer.text
    assert settings.load().rate_limit_polls == 1200


def test_read_only_operator_cannot_save_settings(operator_browser, cast):
    session.get(Account, cast.admin.id).operator_role = "read_only"
    session.commit()
    page = operator_browser.get(SETTINGS_PATH).text
    assert re.search(r'type="submit" disabled>Save</button><span class="form-hint">[^<]*admin:settings:write', page)
    assert operator_browser.post(SETTINGS_PATH, data={}).status_code == 403

"""Settings of the platform on the operators' page."""

import re
from types import SimpleNamespace

import pytest

from panel.core.db import session
from panel.models import Account
from panel.ratelimit import api_budget
from panel.schemas.settings import SystemSettings
from panel.services import settings

PAGE = "/admin/settings"


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


def form_field_names(page):
    """The names of the form's fields."""
    return set(re.findall(r'name="(\w+)"', page.partition('id="form"')[2]))


def test_every_setting_has_its_place(rolled_back_app, operator):
    """But for the limit of what no operation counts in."""
    page = operator.get(PAGE).text
    unused = {f"rate_limit_{name}" for name in set(api_budget.BUDGETS) - set(api_budget.budgets_in_use())}
    assert form_field_names(page) & SystemSettings().fields.keys() == SystemSettings().fields.keys() - unused
    for heading in ("Sign-in", "Consoles", "Billing", "Rate limits"):
        assert heading in page


def test_a_budget_is_shown_once_an_operation_counts_in_it(rolled_back_app, operator, monkeypatch):
    views = {
        name: view
        for name, view in rolled_back_app.view_functions.items()
        if getattr(view, "budget", None) != "metrics"
    }
    monkeypatch.setattr(rolled_back_app, "view_functions", views)
    assert "rate_limit_metrics" not in form_field_names(operator.get(PAGE).text)
    monkeypatch.setitem(views, "scrape", SimpleNamespace(budget="metrics"))
    assert "rate_limit_metrics" in form_field_names(operator.get(PAGE).text)


def test_what_the_page_does_not_show_stays_as_it_is(operator):
    settings.update({"rate_limit_metrics": 7, "rate_limit_polls": 7})
    session.commit()
    assert operator.post(PAGE, data={"rate_limit_polls": ""}).status_code == 303
    found = settings.load()
    assert (found.rate_limit_metrics, found.rate_limit_polls) == (7, 1200)


def test_settings_are_saved_and_shown(operator):
    sent = {name: str(value) for name, value in vars(settings.load()).items()}
    sent |= {"vnc_allowed_sources": "192.0.2.0/24", "billing_enabled": ["false", "true"], "rate_limit_polls": "70"}
    assert operator.post(PAGE, data=sent).headers["Location"] == PAGE
    found = settings.load()
    assert (found.vnc_allowed_sources, found.billing_enabled, found.rate_limit_polls) == ("192.0.2.0/24", True, 70)
    page = operator.get(PAGE).text
    assert 'value="192.0.2.0/24"' in page
    assert operator.post(PAGE, data=sent | {"vnc_allowed_sources": "", "rate_limit_polls": ""}).status_code == 303
    found = settings.load()
    assert (found.vnc_allowed_sources, found.billing_enabled, found.rate_limit_polls) == ("", True, 1200)


def test_a_mistake_stands_beside_its_field_and_nothing_is_saved(operator):
    sent = {"vnc_allowed_sources": "192.0.2.0/24, nonsense", "rate_limit_polls": "70"}
    answer = operator.post(PAGE, data=sent)
    assert (answer.status_code, 'id="wrong-vnc_allowed_sources"' in answer.text) == (422, True)
    assert "nonsense is neither an IP address nor a network" in answer.text
    assert settings.load().rate_limit_polls == 1200


def test_who_may_only_look_cannot_save(operator, cast):
    session.get(Account, cast.admin.id).operator_role = "read_only"
    session.commit()
    page = operator.get(PAGE).text
    assert re.search(r'type="submit" disabled title="[^"]*admin:settings:write', page)
    assert operator.post(PAGE, data={}).status_code == 403

"""Plans and plan groups on the admin pages."""

import pytest

from panel.core.db import session
from panel.models import Plan, PlanGroup
from panel.services import catalog
from tests.support.html_pages import PARTIAL_HEADERS

PLANS_PATH, PLAN_GROUPS_PATH = "/admin/plans", "/admin/plan-groups"
PLAN_FORM = {"cpu_cores": "2", "ram": "2048", "storage": "20", "price": "8.25"}


@pytest.fixture
def admin_browser(browser_as):
    return browser_as("admin")


def test_plan_is_created_changed_and_deleted(admin_browser, cast):
    form = {"name": "M", "plan_group_id": cast.plan.plan_group_id, **PLAN_FORM, "enabled": ["false", "true"]}
    assert admin_browser.post(f"{PLANS_PATH}/new", data=form).status_code == 303
    plan = session.query(Plan).filter_by(name="M").one()
    assert (plan.ram, float(plan.price), plan.enabled) == (2048, 8.25, True)
    page = admin_browser.get(f"{PLANS_PATH}/{plan.id}").text
    assert 'value="8.25"' in page
    assert admin_browser.post(f"{PLANS_PATH}/{plan.id}", data={"price": "9", "enabled": "false"}).status_code == 303
    assert (float(plan.price), plan.enabled, plan.ram) == (9, False, 2048)
    assert admin_browser.post(f"{PLANS_PATH}/{plan.id}/on", headers=PARTIAL_HEADERS).headers["HX-Trigger"] == "changed"
    assert plan.enabled
    assert admin_browser.post(f"{PLANS_PATH}/{plan.id}/delete").status_code == 303
    assert session.get(Plan, plan.id) is None


def test_plan_form_errors_are_shown_at_their_fields(admin_browser, cast):
    form = {"name": "S", "plan_group_id": cast.plan.plan_group_id, **PLAN_FORM}
    taken = admin_browser.post(f"{PLANS_PATH}/new", data=form)
    assert (taken.status_code, 'id="wrong-name"' in taken.text) == (422, True)
    for field, value in (("cpu_cores", "0"), ("ram", "many"), ("price", "-1"), ("plan_group_id", "")):
        answer = admin_browser.post(f"{PLANS_PATH}/new", data={**form, "name": "M", field: value})
        assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True), field
    assert session.query(Plan).count() == 1


def test_plan_in_use_is_disabled_instead_of_deleted(admin_browser, cast):
    cast.instance()
    assert "In use by instances. Turn it off instead." in admin_browser.get(PLANS_PATH).text
    refused = admin_browser.post(f"{PLANS_PATH}/{cast.plan.id}/delete")
    assert (refused.status_code, "Turn it off" in refused.text) == (409, True)
    assert admin_browser.post(f"{PLANS_PATH}/{cast.plan.id}/off").status_code == 303
    assert session.get(Plan, cast.plan.id).enabled is False


def test_plan_group_form_sets_locations(admin_browser, cast):
    form = {"name": "gpu", "display_name": "With GPU", "position": "2", "enabled": ["false", "true"]}
    assert (
        admin_browser.post(f"{PLAN_GROUPS_PATH}/new", data={**form, "hypervisor_groups": cast.location.id}).status_code
        == 303
    )
    group = session.query(PlanGroup).filter_by(name="gpu").one()
    assert [location.name for location in group.groups] == ["lab"]
    assert "Laboratory" in admin_browser.get(PLAN_GROUPS_PATH).text
    assert admin_browser.post(f"{PLAN_GROUPS_PATH}/{group.id}", data={"hypervisor_groups": ""}).status_code == 303
    assert group.groups == []
    assert admin_browser.post(f"{PLAN_GROUPS_PATH}/{group.id}/delete").status_code == 303
    refused = admin_browser.post(f"{PLAN_GROUPS_PATH}/{cast.plan.plan_group_id}/delete")
    assert (refused.status_code, "Plans belong" in refused.text) == (409, True)


def test_plan_list_is_filtered_by_group_and_search(admin_browser, cast):
    catalog.create_plan(catalog.create_plan_group(name="other"), name="XL", cpu_cores=1, ram=512, storage=1)
    session.commit()
    assert cast.plan.id in admin_browser.get(f"{PLANS_PATH}?group={cast.plan.plan_group_id}").text
    assert cast.plan.id not in admin_browser.get(f"{PLANS_PATH}?search=xl").text


@pytest.mark.parametrize("address", [PLANS_PATH, PLAN_GROUPS_PATH])
def test_plan_list_pages_take_constant_number_of_queries(admin_browser, cast, queries, address):
    admin_browser.get(address)
    queries.clear()
    admin_browser.get(address)
    few = len(queries)
    for number in range(29):
        catalog.create_plan(catalog.create_plan_group(name=f"g{number}"), name="S", cpu_cores=1, ram=512, storage=1)
    session.commit()
    session.expunge_all()
    queries.clear()
    assert admin_browser.get(address).text.count('<tr id="') == 25
    assert len(queries) <= few + 1  # the first request has the group in its session

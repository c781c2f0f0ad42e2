"""Plans and plan groups on the operators' pages."""

import pytest

from panel.core.db import session
from panel.models import Plan, PlanGroup
from panel.services import catalog
from tests.test_pages import PARTIAL_HEADERS

PLANS, GROUPS = "/admin/plans", "/admin/plan-groups"
SIZE = {"cpu_cores": "2", "ram": "2048", "storage": "20", "price": "8.25"}


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


def test_a_plan_is_added_changed_and_removed(operator, cast):
    sent = {"name": "M", "plan_group_id": cast.plan.plan_group_id, **SIZE, "enabled": ["false", "true"]}
    assert operator.post(f"{PLANS}/new", data=sent).status_code == 303
    plan = session.query(Plan).filter_by(name="M").one()
    assert (plan.ram, float(plan.price), plan.enabled) == (2048, 8.25, True)
    page = operator.get(f"{PLANS}/{plan.id}").text
    assert 'value="8.25"' in page
    assert operator.post(f"{PLANS}/{plan.id}", data={"price": "9", "enabled": "false"}).status_code == 303
    assert (float(plan.price), plan.enabled, plan.ram) == (9, False, 2048)
    assert operator.post(f"{PLANS}/{plan.id}/on", headers=PARTIAL_HEADERS).headers["HX-Trigger"] == "changed"
    assert plan.enabled
    assert operator.post(f"{PLANS}/{plan.id}/delete").status_code == 303
    assert session.get(Plan, plan.id) is None


def test_mistakes_stand_beside_their_fields(operator, cast):
    sent = {"name": "S", "plan_group_id": cast.plan.plan_group_id, **SIZE}
    taken = operator.post(f"{PLANS}/new", data=sent)
    assert (taken.status_code, 'id="wrong-name"' in taken.text) == (422, True)
    for field, value in (("cpu_cores", "0"), ("ram", "many"), ("price", "-1"), ("plan_group_id", "")):
        answer = operator.post(f"{PLANS}/new", data={**sent, "name": "M", field: value})
        assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True), field
    assert session.query(Plan).count() == 1


def test_a_plan_in_use_is_turned_off_instead(operator, cast):
    cast.instance()
    assert "In use by instances. Turn it off instead." in operator.get(PLANS).text
    refused = operator.post(f"{PLANS}/{cast.plan.id}/delete")
    assert (refused.status_code, "Turn it off" in refused.text) == (409, True)
    assert operator.post(f"{PLANS}/{cast.plan.id}/off").status_code == 303
    assert session.get(Plan, cast.plan.id).enabled is False


def test_a_group_says_where_it_is_sold(operator, cast):
    sent = {"name": "gpu", "display_name": "With GPU", "position": "2", "enabled": ["false", "true"]}
    assert operator.post(f"{GROUPS}/new", data={**sent, "hypervisor_groups": cast.location.id}).status_code == 303
    group = session.query(PlanGroup).filter_by(name="gpu").one()
    assert [each.name for each in group.groups] == ["lab"]
    assert "Laboratory" in operator.get(GROUPS).text
    assert operator.post(f"{GROUPS}/{group.id}", data={"hypervisor_groups": ""}).status_code == 303
    assert group.groups == []
    assert operator.post(f"{GROUPS}/{group.id}/delete").status_code == 303
    refused = operator.post(f"{GROUPS}/{cast.plan.plan_group_id}/delete")
    assert (refused.status_code, "Plans belong" in refused.text) == (409, True)


def test_the_list_is_narrowed(operator, cast):
    catalog.create_plan(catalog.create_plan_group(name="other"), name="XL", cpu_cores=1, ram=512, storage=1)
    session.commit()
    assert cast.plan.id in operator.get(f"{PLANS}?group={cast.plan.plan_group_id}").text
    assert cast.plan.id not in operator.get(f"{PLANS}?search=xl").text


@pytest.mark.parametrize("address", [PLANS, GROUPS])
def test_a_list_takes_the_same_queries_for_many_rows(operator, cast, queries, address):
    operator.get(address)
    queries.clear()
    operator.get(address)
    few = len(queries)
    for number in range(29):
        catalog.create_plan(catalog.create_plan_group(name=f"g{number}"), name="S", cpu_cores=1, ram=512, storage=1)
    session.commit()
    session.expunge_all()
    queries.clear()
    assert operator.get(address).text.count('<tr id="') == 25
    assert len(queries) <= few + 1  # the first one found its group in the session

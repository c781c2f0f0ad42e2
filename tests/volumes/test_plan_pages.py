"""Volume plans and user scripts on the operators' pages."""

import pytest

from panel.core.db import session
from panel.models import UserScript, VolumePlan, VolumePlanGroup
from panel.services import user_scripts
from tests.test_pages import PARTIAL_HEADERS, HtmlOutline

PLANS, SCRIPTS = "/admin/volume-plans", "/admin/user-scripts"


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


def assert_page_sound(answer):
    outline = HtmlOutline(answer.text)
    assert (answer.status_code, outline.open, len(outline.ids)) == (200, [], len(set(outline.ids)))
    return answer.text


def test_a_plan_and_its_class_from_their_making_to_their_end(operator):
    assert "add a class first" in assert_page_sound(operator.get(PLANS))
    assert_page_sound(operator.get(f"{PLANS}/class/new"))
    assert operator.post(f"{PLANS}/class/new", data={"name": ""}).status_code == 422
    operator.post(f"{PLANS}/class/new", data={"name": "ssd", "display_name": "SSD", "enabled": "true"})
    group = session.query(VolumePlanGroup).one()
    assert_page_sound(operator.get(f"{PLANS}/new"))
    data = {"volume_plan_group_id": group.id, "name": "10 GB", "size": "10", "price": "1.5", "enabled": "true"}
    wrong = operator.post(f"{PLANS}/new", data={**data, "size": "0"}, headers=PARTIAL_HEADERS)
    assert ("<html" in wrong.text, 'id="wrong-size"' in wrong.text) == (False, True)
    assert operator.post(f"{PLANS}/new", data=data).headers["Location"] == PLANS
    plan = session.query(VolumePlan).one()
    assert (plan.size, float(plan.price), plan.group) == (10, 1.5, group)
    assert "10 GB" in assert_page_sound(operator.get(f"{PLANS}?search=10"))
    assert "No matching volume plans" in operator.get(f"{PLANS}?search=zzz").text
    assert_page_sound(operator.get(f"{PLANS}/{plan.id}"))
    operator.post(f"{PLANS}/{plan.id}", data={"size": "20", "price": "2", "enabled": "true"})
    operator.post(f"{PLANS}/{plan.id}/off")
    assert (session.query(VolumePlan).one().size, session.query(VolumePlan).one().enabled) == (20, False)
    operator.post(f"{PLANS}/class/{group.id}", data={"display_name": "Fast", "name": "ssd"})
    assert "Fast" in assert_page_sound(operator.get(f"{PLANS}/class/{group.id}"))
    assert operator.post(f"{PLANS}/class/{group.id}/delete").status_code == 409
    operator.post(f"{PLANS}/{plan.id}/delete")
    operator.post(f"{PLANS}/class/{group.id}/delete")
    assert session.query(VolumePlanGroup).count() == 0


def test_scripts_are_listed_without_what_they_say(operator, cast, queries):
    for account in (cast.owner, cast.outsider):
        user_scripts.create(account, name="install <b>", type="bash", content="echo s3cret-token")
    session.commit()
    page = assert_page_sound(operator.get(SCRIPTS))
    assert ("outsider@example.com" in page, "s3cret-token" in page, "install <b>" in page) == (True, False, False)
    found = operator.get(f"{SCRIPTS}?search=outsider@").text
    assert ("outsider@example.com" in found, "owner@example.com" in found) == (True, False)
    assert "No matching user scripts" in operator.get(f"{SCRIPTS}?search=zzz").text
    script = session.query(UserScript).first()
    assert operator.post(f"{SCRIPTS}/{script.id}/delete").status_code == 303
    assert session.query(UserScript).count() == 1


def test_the_list_of_scripts_costs_the_same_for_many(operator, cast, queries):
    def asked():
        operator.get(SCRIPTS)
        queries.clear()
        operator.get(SCRIPTS)
        return len(queries)

    user_scripts.create(cast.owner, name="one", type="bash", content="echo")
    session.commit()
    few = asked()
    for who in (cast.owner, cast.outsider, cast.member):
        user_scripts.create(who, name="more", type="bash", content="echo")
    session.commit()
    assert asked() == few


def test_who_may_only_read_changes_nothing(browser_as, cast):
    cast.admin.operator_role = "read_only"
    session.commit()
    browser = browser_as("admin")
    assert "admin:catalog:write" in assert_page_sound(browser.get(PLANS))
    for path in (f"{PLANS}/new", f"{PLANS}/class/new", f"{SCRIPTS}/x/delete", f"{PLANS}/x/delete"):
        assert browser.post(path).status_code == 403, path

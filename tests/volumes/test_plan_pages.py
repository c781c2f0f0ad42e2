"""Volume plans and user scripts on the operators' pages."""

import pytest

from panel.core.db import session
from panel.models import UserScript, VolumePlan, VolumePlanGroup
from panel.services import user_scripts
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline

PLANS_PATH, SCRIPTS_PATH = "/admin/volume-plans", "/admin/user-scripts"


@pytest.fixture
def operator_browser(browser_as):
    return browser_as("admin")


def assert_valid_page(answer):
    outline = HtmlOutline(answer.text)
    assert (answer.status_code, outline.open, len(outline.ids)) == (200, [], len(set(outline.ids)))
    return answer.text


def test_operator_creates_edits_and_deletes_volume_plan(operator_browser):
    assert "add a class first" in assert_valid_page(operator_browser.get(PLANS_PATH))
    assert_valid_page(operator_browser.get(f"{PLANS_PATH}/class/new"))
    assert operator_browser.post(f"{PLANS_PATH}/class/new", data={"name": ""}).status_code == 422
    operator_browser.post(f"{PLANS_PATH}/class/new", data={"name": "ssd", "display_name": "SSD", "enabled": "true"})
    group = session.query(VolumePlanGroup).one()
    assert_valid_page(operator_browser.get(f"{PLANS_PATH}/new"))
    data = {"volume_plan_group_id": group.id, "name": "10 GB", "size": "10", "price": "1.5", "enabled": "true"}
    wrong = operator_browser.post(f"{PLANS_PATH}/new", data={**data, "size": "0"}, headers=PARTIAL_HEADERS)
    assert ("<html" in wrong.text, 'id="wrong-size"' in wrong.text) == (False, True)
    assert operator_browser.post(f"{PLANS_PATH}/new", data=data).headers["Location"] == PLANS_PATH
    plan = session.query(VolumePlan).one()
    assert (plan.size, float(plan.price), plan.group) == (10, 1.5, group)
    assert "10 GB" in assert_valid_page(operator_browser.get(f"{PLANS_PATH}?search=10"))
    assert "No matching volume plans" in operator_browser.get(f"{PLANS_PATH}?search=zzz").text
    assert_valid_page(operator_browser.get(f"{PLANS_PATH}/{plan.id}"))
    operator_browser.post(f"{PLANS_PATH}/{plan.id}", data={"size": "20", "price": "2", "enabled": "true"})
    operator_browser.post(f"{PLANS_PATH}/{plan.id}/off")
    assert (session.query(VolumePlan).one().size, session.query(VolumePlan).one().enabled) == (20, False)
    operator_browser.post(f"{PLANS_PATH}/class/{group.id}", data={"display_name": "Fast", "name": "ssd"})
    assert "Fast" in assert_valid_page(operator_browser.get(f"{PLANS_PATH}/class/{group.id}"))
    assert operator_browser.post(f"{PLANS_PATH}/class/{group.id}/delete").status_code == 409
    operator_browser.post(f"{PLANS_PATH}/{plan.id}/delete")
    operator_browser.post(f"{PLANS_PATH}/class/{group.id}/delete")
    assert session.query(VolumePlanGroup).count() == 0


def test_script_list_hides_content(operator_browser, cast, queries):
    for account in (cast.owner, cast.outsider):
        user_scripts.create(account, name="install <b>", type="bash", content="echo s3cret-token")
    session.commit()
    page = assert_valid_page(operator_browser.get(SCRIPTS_PATH))
    assert ("outsider@example.com" in page, "s3cret-token" in page, "install <b>" in page) == (True, False, False)
    text = operator_browser.get(f"{SCRIPTS_PATH}?search=outsider@").text
    assert ("outsider@example.com" in text, "owner@example.com" in text) == (True, False)
    assert "No matching user scripts" in operator_browser.get(f"{SCRIPTS_PATH}?search=zzz").text
    script = session.query(UserScript).first()
    assert operator_browser.post(f"{SCRIPTS_PATH}/{script.id}/delete").status_code == 303
    assert session.query(UserScript).count() == 1


def test_script_list_has_constant_query_count(operator_browser, cast, queries):
    def count_queries():
        operator_browser.get(SCRIPTS_PATH)
        queries.clear()
        operator_browser.get(SCRIPTS_PATH)
        return len(queries)

    user_scripts.create(cast.owner, name="one", type="bash", content="echo")
    session.commit()
    few = count_queries()
    for caller in (cast.owner, cast.outsider, cast.member):
        user_scripts.create(caller, name="more", type="bash", content="echo")
    session.commit()
    assert count_queries() == few


def test_read_only_operator_cannot_change_plans_or_scripts(browser_as, cast):
    cast.admin.operator_role = "read_only"
    session.commit()
    browser = browser_as("admin")
    assert "admin:catalog:write" in assert_valid_page(browser.get(PLANS_PATH))
    for path in (f"{PLANS_PATH}/new", f"{PLANS_PATH}/class/new", f"{SCRIPTS_PATH}/x/delete", f"{PLANS_PATH}/x/delete"):
        assert browser.post(path).status_code == 403, path

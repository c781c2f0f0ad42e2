"""Projects on the pages, and instances in them."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Project
from tests.support.html_pages import HtmlOutline

PROJECTS_PATH = "/projects"


@pytest.fixture
def project(cast):
    created_project = Project(account_id=cast.owner.id, name="Web shop", color="#1c5fd4")
    session.add(created_project)
    session.commit()
    return created_project


def test_project_pages_create_to_delete(browser_as):
    browser = browser_as("owner")
    assert "No project yet" in browser.get(PROJECTS_PATH).text
    answer = browser.post(f"{PROJECTS_PATH}/new", data={"name": "Web shop", "description": "", "color": "#2fb344"})
    created_project = session.scalar(select(Project))
    place = f"{PROJECTS_PATH}/{created_project.id}"
    assert (answer.headers["Location"], created_project.color) == (place, "#2fb344")
    assert HtmlOutline(browser.get(place).text).open == []
    sent = {"name": "Shop", "description": "All of it", "color": ""}
    assert browser.post(f"{place}/edit", data=sent).status_code == 303
    assert (session.get(Project, created_project.id).name, session.get(Project, created_project.id).color) == (
        "Shop",
        None,
    )
    refused = browser.post(f"{place}/edit", data={"name": "a/b"})
    assert (refused.status_code, 'id="wrong-name"' in refused.text) == (422, True)
    assert browser.post(f"{place}/delete").headers["Location"] == PROJECTS_PATH
    assert session.scalar(select(Project)) is None


def test_project_page_adds_and_removes_instances(browser_as, cast, project):
    browser, first, second = browser_as("owner"), cast.instance(), cast.instance()
    place = f"{PROJECTS_PATH}/{project.id}"
    sent = {"resource_id": [first.id, second.id]}
    assert browser.post(f"{place}/add", data=sent).headers["Location"] == place
    assert browser.get(place).text.count('<tr id="instance-') == 2
    out = {"resource_type": "instance", "resource_id": first.id, "project_id": ""}
    assert browser.post(f"{PROJECTS_PATH}/assign", data=out).status_code == 303
    assert [session.get(Instance, instance.id).project_id for instance in (first, second)] == [None, project.id]
    foreign = {**out, "resource_id": cast.instance("outsider").id, "project_id": project.id}
    assert "No such instance" in browser.post(f"{PROJECTS_PATH}/assign", data=foreign, follow_redirects=True).text


def test_instance_settings_page_selects_project(browser_as, cast, project):
    instance = cast.instance()
    browser, place = browser_as("owner"), f"/instances/{instance.id}/settings"
    assert f'<option value="{project.id}"' in browser.get(place).text
    sent = {"resource_type": "instance", "resource_id": instance.id, "project_id": project.id}
    browser.post(f"{PROJECTS_PATH}/assign", data=sent)
    assert f'<option value="{project.id}" selected' in browser.get(place).text


def test_instance_list_filters_by_project(browser_as, cast, project):
    inside, outside = cast.instance(), cast.instance()
    session.get(Instance, inside.id).project_id = project.id
    session.commit()
    page = browser_as("owner").get(f"/instances?project={project.id}").text
    assert (inside.id in page, outside.id in page) == (True, False)
    assert 'id="project"' in page
    assert 'id="project"' not in browser_as("outsider").get("/instances").text


def test_project_pages_show_disabled_reason_to_viewer(browser_as, cast, project):
    browser = browser_as("viewer")
    for path in (PROJECTS_PATH, f"{PROJECTS_PATH}/{project.id}", f"{PROJECTS_PATH}/{project.id}/edit"):
        assert "it needs projects.manage" in browser.get(path).text, path
    assert browser.get(f"{PROJECTS_PATH}/new").status_code == 403
    assert browser_as("outsider").get(f"{PROJECTS_PATH}/{project.id}").status_code == 404

"""User scripts on the pages."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Member, Task, UserScript
from panel.services import user_scripts


def create_script(account, name="web", content="echo ready"):
    user_script = user_scripts.create(account, name=name, type="bash", content=content)
    session.commit()
    return user_script


def test_script_pages_create_to_delete(browser_as, cast):
    browser = browser_as("owner")
    assert "No user script yet" in browser.get("/user-scripts").text
    sent = {"name": "web", "type": "bash", "content": "echo a\r\necho b\r\n", "shebang": "", "description": "a note"}
    assert browser.post("/user-scripts/new", data=sent).status_code == 303
    user_script = session.scalars(select(UserScript)).one()
    assert (user_script.content, user_script.account_id) == ("echo a\necho b\n", cast.owner.id)
    assert "a note" in browser.get("/user-scripts").text
    address = f"/user-scripts/{user_script.id}"
    assert "echo a\necho b" in browser.get(address).text
    assert browser.post(address, data={**sent, "name": "db", "description": ""}).status_code == 303
    assert (user_script.name, user_script.description) == ("db", "")
    assert browser.post(f"{address}/delete").status_code == 303
    assert session.scalars(select(UserScript)).all() == []


def test_form_errors_appear_at_fields(browser_as):
    answer = browser_as("owner").post(
        "/user-scripts/new", data={"name": "", "type": "bash", "content": "#cloud-config\n- a"}
    )
    assert answer.status_code == 422
    assert 'id="wrong-name"' in answer.text
    answer = browser_as("owner").post(
        "/user-scripts/new", data={"name": "a", "type": "bash", "content": "#cloud-config\n- a"}
    )
    assert "Must be a YAML mapping." in answer.text


def test_script_of_other_account_is_not_found(browser_as, cast):
    script = create_script(cast.owner, "of the owner")
    outsider = browser_as("outsider")
    assert outsider.get(f"/user-scripts/{script.id}").status_code == 404
    assert outsider.post(f"/user-scripts/{script.id}", data={"name": "mine"}).status_code == 404
    assert outsider.post(f"/user-scripts/{script.id}/delete").status_code == 404
    assert script.name not in outsider.get("/user-scripts").text


def test_new_instance_uses_selected_scripts(browser_as, cast):
    first, second = create_script(cast.owner, "a first"), create_script(cast.owner, "b second")
    browser = browser_as("owner")
    assert f'name="user_scripts" value="{first.id}"' in browser.get("/instances/new").text
    form = {"location_id": cast.location.id, "plan_id": cast.plan.id, "image_id": cast.image.id}
    browser.post("/instances/new", data={**form, "user_scripts": [second.id, ""]})
    instance = session.scalars(select(Instance)).one()
    task = session.scalar(select(Task).where(Task.resource_id == instance.id))
    assert task.arguments["user_scripts"] == [second.id]


def test_new_instance_form_hides_scripts_without_view_permission(browser_as, cast):
    script = create_script(cast.owner)
    role = session.scalar(select(Member).where(Member.account_id == cast.member.id)).role
    assert f'value="{script.id}"' in browser_as("member").get("/instances/new").text
    role.permissions = [permission for permission in role.permissions if permission != "user_scripts.view"]
    session.commit()
    assert f'value="{script.id}"' not in browser_as("member").get("/instances/new").text


def test_script_list_query_count_is_constant(browser_as, cast, queries):
    browser = browser_as("owner")
    create_script(cast.owner)
    queries.clear()
    browser.get("/user-scripts")
    few = len(queries)
    for number in range(24):
        create_script(cast.owner, f"script {number}")
    queries.clear()
    assert browser.get("/user-scripts").text.count('class="name-cell"') == 25
    assert len(queries) == few

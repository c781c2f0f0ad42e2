"""User scripts in both APIs, and their use in deployments."""

import json

import pytest

from panel.core.db import session
from panel.models import Task, UserScript

SCRIPT_BODY = {"name": "web", "type": "bash", "content": "#!/bin/sh\ntouch /ran\n", "description": "", "shebang": ""}


def create_script(as_, caller="owner", **values):
    return as_(caller, "POST", "/api/user-scripts", json={**SCRIPT_BODY, **values})


def test_script_is_returned_as_sent(api_as):
    """Terraform sends all five keys and expects them in the answer."""
    script = create_script(api_as).json["script"]
    assert SCRIPT_BODY.items() <= script.items()
    assert api_as("owner", "GET", "/api/user-scripts").json["data"] == [script]
    assert api_as("owner", "GET", f"/api/user-script/{script['id']}").json["script"] == script
    minimal = api_as(
        "owner", "POST", "/api/user-scripts", json={key: SCRIPT_BODY[key] for key in ("name", "type", "content")}
    )
    assert (minimal.json["script"]["description"], minimal.json["script"]["shebang"]) == ("", "")


def test_script_line_breaks_are_normalized(api_as):
    assert create_script(api_as, content="#!/bin/sh\r\necho a\r\n").json["script"]["content"] == "#!/bin/sh\necho a\n"
    assert create_script(api_as, content="echo\ta").json["script"]["content"] == "echo\ta"


def test_script_content_is_encrypted(api_as):
    create_script(api_as, content="a secret of mine")
    raw = session.connection().exec_driver_sql("select * from user_scripts").one()
    assert "a secret of mine" not in str(raw)


def test_script_update_and_delete(api_as):
    script = create_script(api_as, description="a note").json["script"]
    path = f"/api/user-script/{script['id']}"
    changed = api_as("owner", "PATCH", path, json={"name": "db", "description": ""}).json["script"]
    assert (changed["name"], changed["description"], changed["content"]) == ("db", "", SCRIPT_BODY["content"])
    assert "name, type, content" in api_as("owner", "PATCH", path, json={"id": "x"}).json["errors"]["id"][0]
    assert api_as("owner", "DELETE", path).json["success"] is True
    assert api_as("owner", "GET", path).status_code == 404
    assert api_as("owner", "GET", "/api/user-scripts").json["total"] == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 256),
        ("name", "a\nb"),
        ("type", ""),
        ("type", "x" * 51),
        ("content", ""),
        ("content", "x" * 65537),
        ("content", "a\x00b"),
        ("content", "#cloud-config\n- a list"),
        ("content", None),
        ("shebang", "x" * 256),
        ("surprise", 1),
    ],
)
def test_invalid_scripts_are_refused(api_as, field, value):
    answer = create_script(api_as, **{field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    assert api_as("owner", "GET", "/api/user-scripts").json["total"] == 0


def test_script_of_other_account_is_not_found(api_as):
    script = create_script(api_as).json["script"]
    path = f"/api/user-script/{script['id']}"
    assert api_as("outsider", "GET", "/api/user-scripts").json["total"] == 0
    assert api_as("outsider", "GET", path).status_code == 404
    assert api_as("outsider", "PATCH", path, json={"name": "mine"}).status_code == 404
    assert api_as("outsider", "DELETE", path).status_code == 404
    assert api_as("viewer", "GET", path).status_code == 200
    assert api_as("viewer", "PATCH", path, json={"name": "mine"}).status_code == 403


def test_operators_see_script_owner_but_not_content(api_as):
    script = create_script(api_as, content="a secret of mine").json["script"]
    listed = api_as("admin", "GET", "/api/v1/user-scripts")
    assert [(row["id"], row["owner"]) for row in listed.json["data"]] == [(script["id"], "owner@example.com")]
    assert "a secret of mine" not in listed.text
    assert api_as("admin", "DELETE", f"/api/v1/user-script/{script['id']}").json["success"] is True
    assert api_as("admin", "DELETE", f"/api/v1/user-script/{script['id']}").status_code == 404


def test_deploy_passes_scripts_to_first_boot_in_order(api_as, cast, run_tasks, node):
    """INS-46"""
    ids = [create_script(api_as, name=name, content=f"echo {name}").json["script"]["id"] for name in ("b", "a")]
    instance = cast.instance()
    body = {"image_id": cast.image.id, "user_scripts": [*ids, ids[0]], "cloudcfg": "runcmd: [echo first]"}
    answer = api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json=body)
    assert answer.status_code == 200
    assert "echo b" not in json.dumps(session.get(Task, answer.json["task_id"]).arguments)
    run_tasks()
    seed = json.loads(node.seed_of(instance.id).user_data.split("\n", 1)[1])
    assert seed["runcmd"] == ["echo first"]
    assert [(file["path"][-14:], file["content"]) for file in seed["write_files"]] == [
        ("user-script-01", "#!/bin/bash\necho b"),
        ("user-script-02", "#!/bin/bash\necho a"),
    ]


@pytest.mark.parametrize("call", ["deploy", "reinstall"])
def test_foreign_scripts_are_refused_except_for_operators(api_as, cast, run_tasks, call):
    """INS-49, INS-51"""
    foreign = create_script(api_as, "outsider").json["script"]["id"]
    instance = cast.instance()
    path = f"/instance/{instance.id}/{call}"
    if call == "reinstall":
        api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
        run_tasks()
    body = {"image_id": cast.image.id, "user_scripts": [foreign]}
    answer = api_as("owner", "POST", f"/api{path}", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["user_scripts"])
    assert api_as("admin", "POST", f"/api/v1{path}", json=body).json["data"]["task_id"]


def test_deleted_script_fails_queued_deployment(api_as, cast, run_tasks):
    script = create_script(api_as).json["script"]
    instance = cast.instance()
    body = {"image_id": cast.image.id, "user_scripts": [script["id"]]}
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json=body)
    api_as("owner", "DELETE", f"/api/user-script/{script['id']}")
    run_tasks()
    shown = api_as("owner", "GET", f"/api/instance/{instance.id}").json
    assert (shown["state"], "script was deleted" in shown["last_error"]) == ("pending", True)


def test_script_list_query_count_is_constant(api_as, queries):
    for surface, caller in (("/api", "owner"), ("/api/v1", "admin")):
        create_script(api_as)
        queries.clear()
        api_as(caller, "GET", f"{surface}/user-scripts")
        few = len(queries)
        for number in range(5):
            create_script(api_as, name=f"s{number}")
        queries.clear()
        api_as(caller, "GET", f"{surface}/user-scripts")
        assert len(queries) == few


@pytest.mark.parametrize(
    ("kind", "shebang", "content", "first"),
    [
        ("bash", "", "echo", "#!/bin/bash"),
        ("sh", "", "echo", "#!/bin/sh"),
        ("Python", "", "print()", "#!/usr/bin/env python3"),
        ("other", "", "echo", "#!/bin/sh"),
        ("bash", "/bin/dash", "echo", "#!/bin/dash"),
        ("bash", "#!/bin/dash -e", "echo", "#!/bin/dash -e"),
        ("bash", "/bin/dash", "#!/bin/zsh\necho", "#!/bin/zsh"),
    ],
)
def test_user_script_shebang(kind, shebang, content, first):
    assert UserScript(type=kind, shebang=shebang, content=content).program.splitlines()[0] == first

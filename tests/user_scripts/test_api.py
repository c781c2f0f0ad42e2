"""User scripts by the APIs: stored, changed, and named in deploys."""

import json

import pytest

from panel.core.db import session
from panel.models import Task, UserScript

SCRIPT = {"name": "web", "type": "bash", "content": "#!/bin/sh\ntouch /ran\n", "description": "", "shebang": ""}


def create(as_, who="owner", **values):
    return as_(who, "POST", "/api/user-scripts", json={**SCRIPT, **values})


def test_a_script_comes_back_as_it_was_sent(as_):
    """TF sends all five keys, and needs each back."""
    script = create(as_).json["script"]
    assert SCRIPT.items() <= script.items()
    assert as_("owner", "GET", "/api/user-scripts").json["data"] == [script]
    assert as_("owner", "GET", f"/api/user-script/{script['id']}").json["script"] == script
    least = as_("owner", "POST", "/api/user-scripts", json={key: SCRIPT[key] for key in ("name", "type", "content")})
    assert (least.json["script"]["description"], least.json["script"]["shebang"]) == ("", "")


def test_lines_end_as_in_unix_and_the_last_one_is_kept(as_):
    assert create(as_, content="#!/bin/sh\r\necho a\r\n").json["script"]["content"] == "#!/bin/sh\necho a\n"
    assert create(as_, content="echo\ta").json["script"]["content"] == "echo\ta"


def test_the_content_is_encrypted(as_):
    create(as_, content="a secret of mine")
    raw = session.connection().exec_driver_sql("select * from user_scripts").one()
    assert "a secret of mine" not in str(raw)


def test_change_and_remove(as_):
    script = create(as_, description="a note").json["script"]
    path = f"/api/user-script/{script['id']}"
    changed = as_("owner", "PATCH", path, json={"name": "db", "description": ""}).json["script"]
    assert (changed["name"], changed["description"], changed["content"]) == ("db", "", SCRIPT["content"])
    assert "name, type, content" in as_("owner", "PATCH", path, json={"id": "x"}).json["errors"]["id"][0]
    assert as_("owner", "DELETE", path).json["success"] is True
    assert as_("owner", "GET", path).status_code == 404
    assert as_("owner", "GET", "/api/user-scripts").json["total"] == 0


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
def test_bad_scripts_name_their_field(as_, field, value):
    answer = create(as_, **{field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    assert as_("owner", "GET", "/api/user-scripts").json["total"] == 0


def test_others_do_not_see_it(as_):
    script = create(as_).json["script"]
    path = f"/api/user-script/{script['id']}"
    assert as_("outsider", "GET", "/api/user-scripts").json["total"] == 0
    assert as_("outsider", "GET", path).status_code == 404
    assert as_("outsider", "PATCH", path, json={"name": "mine"}).status_code == 404
    assert as_("outsider", "DELETE", path).status_code == 404
    assert as_("viewer", "GET", path).status_code == 200
    assert as_("viewer", "PATCH", path, json={"name": "mine"}).status_code == 403


def test_operators_see_whose_it_is_and_not_what_it_says(as_):
    script = create(as_, content="a secret of mine").json["script"]
    listed = as_("admin", "GET", "/api/v1/user-scripts")
    assert [(row["id"], row["owner"]) for row in listed.json["data"]] == [(script["id"], "owner@example.com")]
    assert "a secret of mine" not in listed.text
    assert as_("admin", "DELETE", f"/api/v1/user-script/{script['id']}").json["success"] is True
    assert as_("admin", "DELETE", f"/api/v1/user-script/{script['id']}").status_code == 404


def test_a_deploy_hands_them_to_the_first_boot_in_their_order(as_, cast, work, node):
    """INS-46"""
    ids = [create(as_, name=name, content=f"echo {name}").json["script"]["id"] for name in ("b", "a")]
    instance = cast.instance()
    body = {"image_id": cast.image.id, "user_scripts": [*ids, ids[0]], "cloudcfg": "runcmd: [echo first]"}
    answer = as_("owner", "POST", f"/api/instance/{instance.id}/deploy", json=body)
    assert answer.status_code == 200
    assert "echo b" not in json.dumps(session.get(Task, answer.json["task_id"]).arguments)
    work()
    seed = json.loads(node.seed_of(instance.id).user_data.split("\n", 1)[1])
    assert seed["runcmd"] == ["echo first"]
    assert [(file["path"][-14:], file["content"]) for file in seed["write_files"]] == [
        ("user-script-01", "#!/bin/bash\necho b"),
        ("user-script-02", "#!/bin/bash\necho a"),
    ]


@pytest.mark.parametrize("call", ["deploy", "reinstall"])
def test_foreign_scripts_are_refused_to_customers_alone(as_, cast, work, call):
    """INS-49, INS-51"""
    foreign = create(as_, "outsider").json["script"]["id"]
    instance = cast.instance()
    path = f"/instance/{instance.id}/{call}"
    if call == "reinstall":
        as_("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
        work()
    body = {"image_id": cast.image.id, "user_scripts": [foreign]}
    answer = as_("owner", "POST", f"/api{path}", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["user_scripts"])
    assert as_("admin", "POST", f"/api/v1{path}", json=body).json["data"]["task_id"]


def test_a_script_that_is_removed_meanwhile_fails_the_deploy(as_, cast, work):
    script = create(as_).json["script"]
    instance = cast.instance()
    body = {"image_id": cast.image.id, "user_scripts": [script["id"]]}
    as_("owner", "POST", f"/api/instance/{instance.id}/deploy", json=body)
    as_("owner", "DELETE", f"/api/user-script/{script['id']}")
    work()
    shown = as_("owner", "GET", f"/api/instance/{instance.id}").json
    assert (shown["state"], "script was removed" in shown["last_error"]) == ("pending", True)


def test_the_list_takes_the_same_queries_for_many(as_, queries):
    for surface, who in (("/api", "owner"), ("/api/v1", "admin")):
        create(as_)
        queries.clear()
        as_(who, "GET", f"{surface}/user-scripts")
        few = len(queries)
        for number in range(5):
            create(as_, name=f"s{number}")
        queries.clear()
        as_(who, "GET", f"{surface}/user-scripts")
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
def test_what_runs_a_script(kind, shebang, content, first):
    assert UserScript(type=kind, shebang=shebang, content=content).program.splitlines()[0] == first

"""Listing sandboxes and showing one."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Microvm

ESCAPED_METADATA = {"owner": "a b&c=d/é"}
PYTHON_FILTER = "owner%3Da%252520b%252526c%25253Dd%252F%2525C3%2525A9"
JAVASCRIPT_FILTER = "owner%3Da%252520b%252526c%25253Dd%25252F%2525C3%2525A9"


def get_ids(answer):
    assert answer.status_code == 200, answer.json
    return [row["sandboxID"] for row in answer.json]


def set_state(sandbox, state):
    session.scalars(select(Microvm).where(Microvm.sandbox_id == sandbox["sandboxID"])).one().state = state
    session.commit()


def test_listed_sandbox_has_what_sdks_read(call, create_sandbox, image):
    """SBX-03"""
    sandbox = create_sandbox(metadata={"run": "17"}, timeout=120)
    (row,) = call("GET", "/v2/sandboxes").json
    assert row["sandboxID"] == sandbox["sandboxID"]
    assert (row["templateID"], row["alias"], row["state"]) == (image.id, "base", "running")
    assert (row["cpuCount"], row["memoryMB"], row["diskSizeMB"]) == (1, 512, 2048)
    assert (row["metadata"], row["volumeMounts"], row["envdVersion"]) == ({"run": "17"}, [], "0.5.7")
    started, end = (datetime.fromisoformat(row[name]) for name in ("startedAt", "endAt"))
    assert started.tzinfo
    assert abs(end - started - timedelta(seconds=120)) < timedelta(seconds=10)
    assert "envdAccessToken" not in row


def test_detail_has_token_and_lifecycle(call, create_sandbox):
    sandbox = create_sandbox(autoPause=True)
    detail = call("GET", f"/sandboxes/{sandbox['sandboxID']}").json
    assert detail["envdAccessToken"] == sandbox["envdAccessToken"]
    assert detail["domain"] == sandbox["domain"]
    assert detail["lifecycle"] == {"autoResume": False, "onTimeout": "pause"}
    assert detail["allowInternetAccess"] is False
    first_sdks_id = f"{sandbox['sandboxID']}-{sandbox['clientID']}"
    assert call("GET", f"/sandboxes/{first_sdks_id}").json == detail


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("starting", "running"),
        ("running", "running"),
        ("pausing", "paused"),
        ("paused", "paused"),
        ("stopping", None),
        ("stopped", None),
        ("failed", None),
        ("destroying", None),
    ],
)
def test_only_running_and_paused_sandboxes_exist_for_sdks(call, create_sandbox, state, word):
    sandbox = create_sandbox()
    set_state(sandbox, state)
    detail = call("GET", f"/sandboxes/{sandbox['sandboxID']}")
    rows = call("GET", "/v2/sandboxes").json
    assert [row["state"] for row in rows] == ([word] if word else [])
    assert detail.status_code == (200 if word else 404)
    for filtered in ("running", "paused"):
        assert len(call("GET", f"/v2/sandboxes?state={filtered}").json) == (word == filtered)
    assert len(call("GET", "/v2/sandboxes?state=running,paused").json) == bool(word)
    assert len(call("GET", "/sandboxes").json) == (word == "running")


def test_foreign_sandbox_is_invisible(call, create_sandbox, keys):
    """SBX-16: a foreign one and an unknown one have the same answer."""
    sandbox = create_sandbox()
    path = f"/sandboxes/{sandbox['sandboxID']}"
    assert call("GET", "/v2/sandboxes", key=keys["outsider"]).json == []
    assert call("GET", "/sandboxes", key=keys["outsider"]).json == []
    for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/connect"), ("POST", "/refreshes")):
        foreign = call(method, path + end, {"timeout": 9}, key=keys["outsider"])
        unknown = call(method, f"/sandboxes/unknown{end}", {"timeout": 9}, key=keys["outsider"])
        assert (foreign.status_code, unknown.status_code) == (404, 404)
        assert foreign.json["message"].replace(sandbox["sandboxID"], "unknown") == unknown.json["message"]
    assert call("GET", path).status_code == 200


@pytest.mark.parametrize("filter_text", [PYTHON_FILTER, JAVASCRIPT_FILTER])
def test_metadata_filter_reads_what_sdks_send(call, create_sandbox, filter_text):
    sandbox = create_sandbox(metadata={**ESCAPED_METADATA, "run": "1"})
    create_sandbox(metadata={"owner": "bob"})
    assert get_ids(call("GET", f"/v2/sandboxes?metadata={filter_text}")) == [sandbox["sandboxID"]]
    assert get_ids(call("GET", f"/sandboxes?metadata={filter_text}")) == [sandbox["sandboxID"]]
    assert get_ids(call("GET", f"/v2/sandboxes?metadata={filter_text}%26run%3D1")) == [sandbox["sandboxID"]]
    assert get_ids(call("GET", f"/v2/sandboxes?metadata={filter_text}%26run%3D2")) == []


@pytest.mark.parametrize("name", ["a.b", "a'b", 'a"b', "a[0]", "$", "é", "a\\b", "a b", "0", "a{b}", "a,b"])
def test_metadata_filter_takes_any_name(call, create_sandbox, name):
    sandbox = create_sandbox(metadata={name: "x"})
    answer = call("GET", "/v2/sandboxes", query_string={"metadata": f"{name}=x"})
    assert get_ids(answer) == [sandbox["sandboxID"]]


def test_pages_follow_the_next_token(call, create_sandbox):
    """Also while rows of earlier pages are ended, as the command line does."""
    created = [create_sandbox(is_running=False)["sandboxID"] for _ in range(5)]
    seen, token = [], ""
    while token is not None:
        answer = call("GET", f"/v2/sandboxes?limit=2&nextToken={token}")
        seen += get_ids(answer)
        call("DELETE", f"/sandboxes/{seen[0]}")
        token = answer.headers.get("x-next-token")
    assert seen == created[::-1]
    assert get_ids(call("GET", "/v2/sandboxes?limit=2&order=asc")) == created[:2]
    assert "x-next-token" not in call("GET", "/v2/sandboxes?limit=1000").headers


def test_sandboxes_of_one_moment_are_paged_completely(call, create_sandbox):
    created = {create_sandbox(is_running=False)["sandboxID"] for _ in range(3)}
    session.query(Microvm).update({Microvm.started_at: clock.now()})
    session.commit()
    seen, token = [], ""
    while token is not None:
        answer = call("GET", f"/v2/sandboxes?limit=1&nextToken={token}")
        seen, token = seen + get_ids(answer), answer.headers.get("x-next-token")
    assert (len(seen), set(seen)) == (3, created)


def test_started_after_and_template_narrow_the_list(call, create_sandbox, image):
    sandbox = create_sandbox()
    started = call("GET", "/v2/sandboxes").json[0]["startedAt"]
    for moment in (started, started.replace("Z", "+00:00"), "2020-01-02T03:04:05.1+00:00"):
        assert get_ids(call("GET", f"/v2/sandboxes?startedAfter={moment}")) == [sandbox["sandboxID"]], moment
    assert get_ids(call("GET", "/v2/sandboxes?startedAfter=2999-01-01T00:00:00Z")) == []
    for template in (image.id, image.name, "base"):
        assert get_ids(call("GET", f"/v2/sandboxes?template={template}")) == [sandbox["sandboxID"]]
    assert get_ids(call("GET", "/v2/sandboxes?template=unknown")) == []


@pytest.mark.parametrize(
    "query",
    [
        "state=starting",
        "limit=0",
        "limit=-1",
        "limit=x",
        "order=up",
        "startedAfter=yesterday",
        "startedAfter=0001-01-01T00:00:00%2B14:00",
        "nextToken=x",
        "nextToken=W10",
        "nextToken=WyIyMDMwLTAxLTAyIiwgN10",
        "metadata=a",
        "metadata==a",
        "metadata=a%3D%252500",
        "metadata=" + "%26".join(f"a{number}%3D1" for number in range(21)),
    ],
)
def test_invalid_query_is_refused(call, query):
    answer = call("GET", f"/v2/sandboxes?{query}")
    assert (answer.status_code, answer.json["code"]) == (400, 400)


def test_list_takes_a_constant_number_of_queries(call, create_sandbox, queries):
    counts = []
    for _ in range(2):
        create_sandbox(is_running=False)
        queries.clear()
        call("GET", "/v2/sandboxes")
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_templates_are_the_images(call, create_sandbox, image):
    assert [row["spawnCount"] for row in call("GET", "/templates?teamID=x").json or [{"spawnCount": 0}]] == [0]
    create_sandbox()
    (row,) = call("GET", "/templates").json
    assert (row["templateID"], row["aliases"], row["buildStatus"]) == (image.id, ["base"], "ready")
    assert (row["spawnCount"], row["public"], row["envdVersion"]) == (1, True, "0.5.7")
    assert call("GET", "/templates/aliases/base").json == {"templateID": image.id, "public": True}

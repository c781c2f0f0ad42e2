"""The API references: who may read them, what they say, and that they say it of everything (specification 1, 9)."""

import json
import re

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

import panel
from api.docs import openapi_document
from panel.cli import main
from panel.core.config import ROOT
from tests.test_architecture import SURFACES, find_operations

DOCUMENTS = {
    "ADMIN": ("/api/docs/openapi.yaml", "/api/admin/openapi.yaml"),
    "USER": ("/api/docs/user/openapi.yaml",),
}
FAILURES = {"400", "401", "403", "404", "409", "413", "422", "429"}
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The documents are long: a loader in Python takes seconds for each."""
BRANDED_PREFIXES = ("/api/cloud-service/", "/api/self-provisioning/")
"""Below these paths clients know plural item routes."""
UNCOUNTED_PATHS = ("/api/activity", "/api/instance/{instance_id}/deploy/iso")
"""Lists whose word has no plural, or that clients know without it."""


def get_document(as_, path, **options):
    answer = as_("nobody", "GET", path, **options)
    assert answer.status_code == 200
    assert answer.mimetype == "application/yaml"
    return yaml.load(answer.text, LOADER)


def build_document(app, surface):
    return json.loads(json.dumps(openapi_document(app, surface)))


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/api/docs", "/api/docs/openapi.yaml"),
        ("/api/docs/user", "/api/docs/user/openapi.yaml"),
        ("/api/user/", "/api/docs/user/openapi.yaml"),
    ],
)
def test_anybody_may_read_the_references(browser_as, path, document):
    """DOC-01, DOC-02, DOC-10"""
    answer = browser_as().get(path)
    assert (answer.status_code, answer.mimetype) == (200, "text/html")
    assert f'data-document="{document}"' in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_the_reference_in_the_panel(browser_as):
    """DOC-09"""
    page = browser_as("owner").get("/user/api/documentation")
    assert page.status_code == 200
    assert 'data-document="/api/docs/user/openapi.yaml"' in page.text
    assert "Sign out" in page.text


@pytest.mark.parametrize(("surface", "path"), [(s, path) for s, paths in DOCUMENTS.items() for path in paths])
def test_anybody_may_read_the_documents(api_as, surface, path):
    """DOC-03, DOC-04, DOC-08"""
    document = get_document(api_as, path)
    validate(document)
    assert document["openapi"].startswith("3.1")
    assert document["info"]["title"] == f"{surface.title()} API"


def test_the_product_has_a_version_of_its_own():
    """VER-05: the interface's level is not the product's version."""
    assert panel.__version__.startswith("0.")
    answer = CliRunner().invoke(main, ["--version"], prog_name="panel")
    assert answer.output == f"panel {panel.__version__} (interface level {panel.INTERFACE_VERSION})\n"


def test_versions_agree(api_as, monkeypatch):
    """VER-01 to VER-04, OP-02, DOC-05"""
    for version in (panel.INTERFACE_VERSION, "3.9.9"):
        monkeypatch.setattr(panel, "INTERFACE_VERSION", version)
        told = [
            api_as("owner", "GET", "/version").json,
            api_as("owner", "GET", "/api/version").json,
            api_as("admin", "GET", "/api/v1/system/version").json,
        ]
        assert all(answer["data"] == {"version": version, "api_envelope": "v1"} for answer in told)
        for path in ("/api/docs/openapi.yaml", "/api/docs/user/openapi.yaml"):
            assert get_document(api_as, path)["info"]["version"] == version


def test_the_documents_name_the_public_address_and_not_the_host_header(app, api_as):
    """DOC-06, DOC-07"""
    for path in ("/api/docs/openapi.yaml", "/api/docs/user/openapi.yaml"):
        for headers in ({"Host": "evil.example"}, {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}):
            (server,) = get_document(api_as, path, headers=headers)["servers"]
            assert server["url"] == app.extensions["config"].public_url


def test_every_documented_path_exists(app, api_as):
    """DOC-11: without a token every operation refuses, and nothing answers that there is no such address or method."""
    for surface, refused in (("USER", 401), ("ADMIN", 403)):
        for method, path, _ in find_operations(app, surface):
            real = re.sub(r"\{\w+\}", "0199c0a8-0000-7000-8000-000000000000", path)
            assert api_as("nobody", method, real).status_code == refused, (method, path)


def test_every_api_route_is_documented(app):
    """Nothing is served under the API's prefixes that the documents do not show, but for the references themselves."""
    shown = {(m, re.sub(r"\{|\}", "", path)) for s in SURFACES for m, path, _ in find_operations(app, s)}
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/api/") and not rule.endpoint.startswith("docs.") and not is_alias(rule):
            for method in rule.methods - {"HEAD", "OPTIONS"}:
                assert (method, re.sub(r"<(\w+:)?|>", "", rule.rule)) in shown, rule.rule


def is_alias(rule):
    """Served beside the documented path of the same operation, for clients that know another one."""
    return rule.endpoint[-1].isdigit()


def test_customers_lists_are_plural_and_items_singular(app):
    """ERR-04"""
    seen = 0
    for method, path, operation in find_operations(app, "USER"):
        if path.startswith(BRANDED_PREFIXES) or "ssh-key" in path:
            continue
        for segment in re.findall(r"/([\w-]+)/\{\w+_id\}", path):
            assert not segment.endswith("s"), path
            seen += 1
        answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
        if method == "GET" and answer.get("schema", {}).get("$ref", "").endswith("Page"):
            assert path.endswith("s") or path in UNCOUNTED_PATHS, path
            seen += 1
    assert seen > 10


@pytest.mark.parametrize("surface", SURFACES)
def test_every_operation_is_explained(app, surface):
    document = build_document(app, surface)
    tags = {tag["name"] for tag in document["tags"] if tag["description"]}
    assert len(document["info"]["description"]) > 1000
    for method, path, operation in find_operations(app, surface):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert set(operation["tags"]) <= tags, where
        assert all(parameter["description"] for parameter in operation["parameters"]), where
        assert "default" not in operation["responses"], where
        if surface == "USER" and "x-scope" in operation:
            assert operation["x-scope"] in operation["description"], where


@pytest.mark.parametrize("surface", SURFACES)
def test_every_operation_names_its_failures(app, surface):
    document = build_document(app, surface)
    error = document["components"]["schemas"][f"{surface.title()}Error"]
    assert error["required"] == ["success", "message"]
    for name, answer in document["components"]["responses"].items():
        told = answer["content"]["application/json"]
        assert told["schema"] == {"$ref": f"#/components/schemas/{surface.title()}Error"}, name
        Draft202012Validator(error).validate(told["example"])
    for method, path, operation in find_operations(app, surface):
        told = FAILURES & operation["responses"].keys()
        assert all("$ref" in answer or answer["content"] for answer in operation["responses"].values()), path
        assert {"401", "403", "429"} <= told, path
        assert ("404" in told) >= ("{" in path), path
        assert ({"400", "413", "422"} <= told) >= ("requestBody" in operation), path
        assert method == "GET" or "409" in told, path


@pytest.mark.parametrize("surface", SURFACES)
def test_every_field_is_described_with_a_fitting_example(app, surface):
    document = build_document(app, surface)
    bare = []
    for name, schema in document["components"]["schemas"].items():
        for field, facts in schema.get("properties", {}).items():
            if not facts.get("description") or ("example" not in facts and is_simple(facts)):
                bare.append(f"{name}.{field}")
            elif "example" in facts:
                rule = {key: value for key, value in facts.items() if key != "example"}
                wrong = Draft202012Validator({**rule, "components": document["components"]}).iter_errors(
                    facts["example"]
                )
                bare += [f"{name}.{field}: {error.message}" for error in wrong]
    assert bare == []


def is_simple(facts):
    """Whether the value is no object or list, whose example comes from its parts."""
    return not {"$ref", "allOf", "anyOf", "items"} & facts.keys()


@pytest.mark.parametrize("surface", SURFACES)
def test_what_clients_get_may_grow_and_what_they_send_is_checked(app, surface):
    """NS-13: an answer's schema forbids no further fields; a body's does."""
    document = build_document(app, surface)
    bodies = {
        operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].split("/")[-1]
        for _, _, operation in find_operations(app, surface)
        if "requestBody" in operation
    }
    for name in bodies:
        assert document["components"]["schemas"][name]["additionalProperties"] is False, name
    assert not any(
        "additionalProperties" in schema
        for name, schema in document["components"]["schemas"].items()
        if name.endswith(("Out", "Page", "List", "Envelope", "Error"))
    )


def test_the_changelog_has_the_interface_history():
    """VER-05, VER-06"""
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^- \*\*([\d.]+)\*\* \(([\d-]+)\): (.+)", text, re.M)
    assert [release[:2] for release in releases] == [
        ("3.3.1", "2026-09-30"),
        ("3.3.0", "2026-09-29"),
        ("3.2.3.4", "2026-09-26"),
        ("3.2.3.3", "2026-09-25"),
    ]
    assert "failures no longer answer 200" in text
    assert "## Unreleased" in text


@pytest.mark.parametrize("path", ["/connect", "/version"])
def test_paths_that_are_served_with_and_without_the_prefix(api_as, path):
    """OP-02, acceptance A2."""
    for prefix in ("", "/api"):
        assert api_as("owner", "GET", prefix + path).json["success"] is True
        refused = api_as("nobody", "GET", prefix + path)
        assert (refused.status_code, refused.json["success"]) == (401, False)


ROWS = """
POST /api/v1/ips
DELETE /api/v1/ip/{id}
DELETE /api/v1/task/{id}
DELETE /api/v1/user/{id}/association/{id}
DELETE /api/v1/security-group/{id}/rules/{id}
DELETE /api/security-group/{id}/rules/{id}
POST /api/image/{id}/retry
POST /api/v1/instance/{id}/network/enable/secondary
GET /api/instance/{id}/vnc
POST /api/v1/billing/instance/{id}/power/start
POST /api/v1/billing/instance/{id}/power/stop
POST /api/v1/billing/instance/{id}/power/restart
"""


@pytest.mark.parametrize("row", ROWS.split("\n")[1:-1])
def test_rows_of_the_contract_are_served(api_as, row):
    """Requirement 12: without a token each refuses, and none answers that there is no such address or method."""
    method, path = row.split()
    answer = api_as("nobody", method, path.replace("{id}", "0199c0a8-0000-7000-8000-000000000000"))
    assert answer.status_code in (401, 403)

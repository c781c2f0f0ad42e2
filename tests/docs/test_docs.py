"""The API references and documents: access, content and completeness."""

import json
import re

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

import panel
from api.docs import build_openapi_document
from panel.cli import main
from panel.core.config import ROOT
from tests.support.operations import SURFACES, find_operations

DOCUMENT_PATHS = {
    "ADMIN": ("/api/docs/openapi.yaml", "/api/admin/openapi.yaml"),
    "USER": ("/api/docs/user/openapi.yaml",),
}
FAILURE_STATUSES = {"400", "401", "403", "404", "409", "413", "422", "429"}
YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C: the one in Python takes seconds for each document."""
PLURAL_ITEM_PREFIXES = ("/api/metrics/", "/api/cloud-service/", "/api/self-provisioning/")
"""Paths whose item routes are plural, as clients expect them."""
SINGULAR_LIST_PATHS = (
    "/api/activity",
    "/api/alert-rule/{alert_rule_id}/history",
    "/api/instance/{instance_id}/backup-queue",
    "/api/instance/{instance_id}/deploy/iso",
    "/api/monitoring",
)
"""List routes that are singular, as clients expect them."""


def get_document(api_as, path, **options):
    answer = api_as("nobody", "GET", path, **options)
    assert answer.status_code == 200
    assert answer.mimetype == "application/yaml"
    return yaml.load(answer.text, YAML_LOADER)


def build_document(app, surface):
    return json.loads(json.dumps(build_openapi_document(app, surface)))


@pytest.mark.parametrize(
    ("path", "document", "operation"),
    [
        ("/api/docs", "/api/docs/openapi.yaml", None),
        ("/api/docs/admin/user", "/api/docs", "/api/v1/users"),
        ("/api/docs/user", "/api/docs/user/openapi.yaml", None),
        ("/api/docs/user/ssh_key", "/api/docs/user", "/api/ssh-keys"),
        ("/api/user/", "/api/docs/user/openapi.yaml", None),
    ],
)
def test_references_are_public(browser_as, path, document, operation):
    """DOC-01, DOC-02, DOC-10"""
    answer = browser_as().get(path)
    assert (answer.status_code, answer.mimetype) == (200, "text/html")
    assert f'href="{document}"' in answer.text
    assert operation is None or f"<code>{operation}</code>" in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_panel_contains_the_user_reference(browser_as):
    """DOC-09"""
    for path, text in (("", "/api/docs/user/openapi.yaml"), ("/ssh_key", "<code>/api/ssh-keys</code>")):
        page = browser_as("owner").get(f"/user/api/documentation{path}")
        assert page.status_code == 200
        assert text in page.text
        assert "Sign out" in page.text


@pytest.mark.parametrize(("surface", "path"), [(s, path) for s, paths in DOCUMENT_PATHS.items() for path in paths])
def test_openapi_documents_are_public_and_valid(api_as, surface, path):
    """DOC-03, DOC-04, DOC-08"""
    document = get_document(api_as, path)
    validate(document)
    assert document["openapi"].startswith("3.1")
    assert document["info"]["title"] == f"{surface.title()} API"


def test_product_version_differs_from_interface_level():
    """VER-05: the interface level is independent of the product's version."""
    assert panel.__version__.startswith("0.")
    answer = CliRunner().invoke(main, ["--version"], prog_name="panel")
    assert answer.output == f"panel {panel.__version__} (interface level {panel.INTERFACE_VERSION})\n"


def test_versions_in_answers_and_documents_agree(api_as, monkeypatch):
    """VER-01 to VER-04, OP-02, DOC-05"""
    for version in (panel.INTERFACE_VERSION, "3.9.9"):
        monkeypatch.setattr(panel, "INTERFACE_VERSION", version)
        answers = [
            api_as("owner", "GET", "/version").json,
            api_as("owner", "GET", "/api/version").json,
            api_as("admin", "GET", "/api/v1/system/version").json,
        ]
        assert all(answer["data"] == {"version": version, "api_envelope": "v1"} for answer in answers)
        for path in ("/api/docs/openapi.yaml", "/api/docs/user/openapi.yaml"):
            assert get_document(api_as, path)["info"]["version"] == version


def test_document_servers_ignore_the_host_header(app, api_as):
    """DOC-06, DOC-07"""
    for path in ("/api/docs/openapi.yaml", "/api/docs/user/openapi.yaml"):
        for headers in ({"Host": "evil.example"}, {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}):
            (server,) = get_document(api_as, path, headers=headers)["servers"]
            assert server["url"] == app.extensions["config"].public_url


def test_documented_paths_exist(app, api_as, unlimited_rates):
    """DOC-11: without a token every operation answers 401 or 403, and none 404 or 405."""
    for surface, status in (("USER", 401), ("ADMIN", 403)):
        for method, path, _ in find_operations(app, surface):
            filled_path = re.sub(r"\{\w+\}", "0199c0a8-0000-7000-8000-000000000000", path)
            assert api_as("nobody", method, filled_path).status_code == status, (method, path)


def test_api_routes_are_documented(app):
    """All routes below /api are in the documents, except the references themselves and the sandbox API, whose contract
    is that of its SDKs (docs/decisions/0021-sandbox-api.md)."""
    documented = {(m, re.sub(r"\{|\}", "", path)) for s in SURFACES for m, path, _ in find_operations(app, s)}
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/api/sbx/"):
            continue
        if rule.rule.startswith("/api/") and not rule.endpoint.startswith("docs.") and not is_alias(rule):
            for method in rule.methods - {"HEAD", "OPTIONS"}:
                assert (method, re.sub(r"<(\w+:)?|>", "", rule.rule)) in documented, rule.rule


def is_alias(rule):
    """Return whether the rule is an additional path of a documented operation, for older clients."""
    return rule.endpoint[-1].isdigit()


def test_user_list_routes_are_plural_and_item_routes_singular(app):
    """ERR-04"""
    checked_routes = 0
    for method, path, operation in find_operations(app, "USER"):
        if path.startswith(PLURAL_ITEM_PREFIXES) or "ssh-key" in path:
            continue
        for segment in re.findall(r"/([\w-]+)/\{\w+_id\}", path):
            assert not segment.endswith("s"), path
            checked_routes += 1
        answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
        if method == "GET" and answer.get("schema", {}).get("$ref", "").endswith("Page"):
            assert path.endswith("s") or path in SINGULAR_LIST_PATHS, path
            checked_routes += 1
    assert checked_routes > 10


@pytest.mark.parametrize("surface", SURFACES)
def test_operations_have_summary_tags_and_parameter_descriptions(app, surface):
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
def test_operations_document_their_error_statuses(app, surface):
    document = build_document(app, surface)
    error_schema = document["components"]["schemas"][f"{surface.title()}Error"]
    assert error_schema["required"] == ["success", "message"]
    for name, answer in document["components"]["responses"].items():
        content = answer["content"]["application/json"]
        assert content["schema"] == {"$ref": f"#/components/schemas/{surface.title()}Error"}, name
        Draft202012Validator(error_schema).validate(content["example"])
    for method, path, operation in find_operations(app, surface):
        statuses = FAILURE_STATUSES & operation["responses"].keys()
        assert all("$ref" in answer or answer["content"] for answer in operation["responses"].values()), path
        assert {"401", "403", "429"} <= statuses, path
        assert ("404" in statuses) >= ("{" in path), path
        assert ({"400", "413", "422"} <= statuses) >= ("requestBody" in operation), path
        assert method == "GET" or "409" in statuses, path


@pytest.mark.parametrize("surface", SURFACES)
def test_fields_have_description_and_valid_example(app, surface):
    document = build_document(app, surface)
    errors = []
    for name, schema in document["components"]["schemas"].items():
        for field, facts in schema.get("properties", {}).items():
            if not facts.get("description") or ("example" not in facts and is_simple(facts)):
                errors.append(f"{name}.{field}")
            elif "example" in facts:
                rule = {key: value for key, value in facts.items() if key != "example"}
                wrong = Draft202012Validator({**rule, "components": document["components"]}).iter_errors(
                    facts["example"]
                )
                errors += [f"{name}.{field}: {error.message}" for error in wrong]
    assert errors == []


def is_simple(facts):
    """Return whether the value is neither an object nor a list, whose examples come from their parts."""
    return not {"$ref", "allOf", "anyOf", "items"} & facts.keys()


@pytest.mark.parametrize("surface", SURFACES)
def test_only_body_schemas_forbid_additional_fields(app, surface):
    """NS-13: schemas of answers allow additional fields; schemas of bodies do not."""
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


def test_changelog_lists_interface_levels():
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
def test_connect_and_version_are_served_without_prefix(api_as, path):
    """OP-02."""
    for prefix in ("", "/api"):
        assert api_as("owner", "GET", prefix + path).json["success"] is True
        refused = api_as("nobody", "GET", prefix + path)
        assert (refused.status_code, refused.json["success"]) == (401, False)


CONTRACT_ROUTES = """
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


@pytest.mark.parametrize("row", CONTRACT_ROUTES.split("\n")[1:-1])
def test_contract_routes_are_served(api_as, row):
    """Without a token each route answers 401 or 403, and none 404 or 405."""
    method, path = row.split()
    answer = api_as("nobody", method, path.replace("{id}", "0199c0a8-0000-7000-8000-000000000000"))
    assert answer.status_code in (401, 403)

"""The pages of the API references: every operation with examples that work, search, and unknown families."""

import json
import shlex

import pytest
from jsonschema import Draft202012Validator

from panel.web import api_examples, api_reference
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline

SURFACES = ("user", "admin")
PUBLIC_URL = "https://panel.example.com"


def list_details(surface):
    document = api_reference.load_document(surface)
    for family in document.families:
        yield from api_reference.build_family(surface, family, PUBLIC_URL).operations


@pytest.mark.parametrize("surface", SURFACES)
def test_reference_has_every_operation_with_valid_examples(surface):
    document = api_reference.load_document(surface)
    ids = []
    for details in list_details(surface):
        operation, examples = details.operation, dict(details.examples)
        facts = document.paths[operation.path][operation.method.lower()]
        command = shlex.split(examples["curl"].replace("\\\n", " "))
        address = next(part for part in command if part.startswith(PUBLIC_URL))
        assert "{" not in address, operation.id
        assert "None" not in address, operation.id
        assert (command[2] if command[1] == "-X" else "GET") == operation.method
        compile(examples["Python"], operation.id, "exec")
        if "requestBody" in facts:
            schema = {
                **facts["requestBody"]["content"]["application/json"]["schema"],
                "components": document.components,
            }
            body = json.loads(command[command.index("-d") + 1])
            Draft202012Validator(schema).validate(body)
            literal = examples["Python"].partition("json=")[2].partition("\n)\nresponse")[0].rstrip(",\n")
            assert eval(literal) == body, operation.id
        ids.append(operation.id)
    paths = document.paths.values()
    assert sorted(ids) == sorted(facts["operationId"] for operations in paths for facts in operations.values())


@pytest.mark.parametrize("surface", SURFACES)
def test_examples_of_answers_fit_their_schemas(surface):
    document = api_reference.load_document(surface)
    answers = 0
    for operations in document.paths.values():
        for facts in operations.values():
            for status, answer in facts["responses"].items():
                if status < "4" and "application/json" in answer.get("content", {}):
                    schema = answer["content"]["application/json"]["schema"]
                    example = api_examples.build_example(schema, document.schemas)
                    Draft202012Validator({**schema, "components": document.components}).validate(example)
                    answers += 1
    assert answers > 250


@pytest.mark.parametrize("surface", SURFACES)
def test_every_family_page_is_well_formed_with_all_links(app, browser_as, surface):
    """Without JavaScript: all operations are in the page itself, and every link to a part of the page leads there."""
    browser = browser_as()
    for family in api_reference.load_document(surface).families:
        page = browser.get(f"/api/docs/{surface}/{family}")
        outline = HtmlOutline(page.text)
        assert len(set(outline.ids)) == len(outline.ids), family
        details = api_reference.build_family(surface, family, app.extensions["config"].public_url)
        assert {operation.operation.id for operation in details.operations} <= set(outline.ids)
        targets = {part.partition('"')[0] for part in page.text.split('href="#')[1:]}
        assert targets <= {*outline.ids, "main"}, family


def test_search_finds_operations_by_title_and_path(browser_as):
    browser = browser_as()
    page = browser.get("/api/docs/user?q=Public+ssh")
    assert 'href="/api/docs/user/ssh_key#user.ssh_key.create"' in page.text
    assert "user.instance.create" not in page.text
    assert "user.ssh_key.generate" in browser.get("/api/docs/user?q=post+ssh-key/generate").text
    partial = browser.get("/api/docs/user?q=nothing-like-this", headers=PARTIAL_HEADERS).text
    assert "No operation matches" in partial
    assert "<html" not in partial
    assert "<script>" not in browser.get("/api/docs/user?q=<script>").text


@pytest.mark.parametrize(
    "path", ["/api/docs/user/nothing", "/api/docs/admin/nothing", "/user/api/documentation/nothing"]
)
def test_unknown_family_is_not_found(browser_as, path):
    assert browser_as("owner").get(path).status_code == 404

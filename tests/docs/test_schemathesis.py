"""Every operation as the documents describe it, asked with what they allow and with what they do not: no answer may be
a fault, of an undocumented status or of another shape than documented.

The operations come from the committed documents, what is asked of them from the served ones.
"""

import json
from dataclasses import replace
from ipaddress import ip_address

import pytest
import schemathesis
from flask import g
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.docs import openapi_document
from panel.core.config import ROOT
from panel.core.db import db, session
from panel.services import instances, ssh_keys
from panel.services import settings as platform
from panel.services.webhooks import subscriptions, url_policy
from panel.workflows import waiting
from tests.conftest import connect_simulated_node, run_queued_calls
from tests.support import cast as people
from worker.engine import runner

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
MAX_EXAMPLES = 8
SSH_PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBn2Uh7GkVjmUqjSDkP0nCq3xk1E5G7e6rYV5mW9uQxJ"
ALTERNATIVE_FIELDS = {"key_id": "ssh_key_id", "group_id": "hypervisor_group_id", "location_id": "hypervisor_group_id"}
ALTERNATIVE_FIELDS |= {
    "user_id": "account_id",
    "subscription_id": "webhook_subscription_id",
    "delivery_id": "webhook_delivery_id",
}


def commit_and_run_tasks():
    for surface in ("user", "admin"):
        document = json.loads((ROOT / "api" / "openapi" / f"{surface}.json").read_text())
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                yield pytest.param(surface, path, method, id=operation["operationId"])


@pytest.fixture(scope="module")
def documents(app):
    """Both documents, read by the tool. Further fields in an answer fail here, though clients must bear them."""
    found = {}
    for surface in ("user", "admin"):
        document = json.loads(json.dumps(openapi_document(app, surface.upper())))
        for schema in document["components"]["schemas"].values():
            schema.setdefault("additionalProperties", False)
        found[surface] = schemathesis.openapi.from_dict(document)
    return found


@pytest.fixture(scope="module")
def cast(shared_rolled_back_app):
    found = shared_rolled_back_app.cast
    rows = {name: session.merge(getattr(found, name)) for name in people.ROWS}
    return people.Cast(**rows, tokens=dict(found.tokens))


@pytest.fixture(scope="module")
def ids(cast, documents):
    """One id of every kind of thing that there is, the owner's where things have owners, by the name of its field."""
    instance = cast.instance()
    ssh_keys.create(cast.owner, name="laptop", public_key=SSH_PUBLIC_KEY)
    hook = {"url": "https://1.1.1.1/", "secret": "s" * 16, "event_kinds": ["*"]}
    subscriptions.send_test(subscriptions.create(cast.owner, name="hook", **hook), "instance.created")
    deploy, _ = instances.deploy(instance, account=cast.owner, actor="test", image_id=cast.image.id)
    session.commit()
    runner.run(deploy.id, "test-worker")
    platform.update({name: 10**6 for name in vars(platform.get()) if name.startswith("rate_limit_")})
    session.commit()
    found = {}
    for mapper in db.Model.registry.mappers:
        rows = db.select(mapper.class_)
        if "account_id" in mapper.columns:
            rows = rows.filter_by(account_id=cast.owner.id)
        row = session.scalars(rows.limit(1)).first()
        if row is not None and hasattr(row, "id"):
            found[f"{mapper.local_table.name.removesuffix('s')}_id"] = row.id
    found |= {"account_id": cast.owner.id, "instance_id": instance.id}
    return found | {name: found[same] for name, same in ALTERNATIVE_FIELDS.items() if same in found}


@pytest.fixture
def isolated_api(shared_rolled_back_app, ids, monkeypatch):
    """The product, for one operation: what it changes is undone. Each request begins anew, as in production. It knows
    its address, and workers are there for who waits for them; the guest has finished booting. Every name is known."""
    config, node = shared_rolled_back_app.extensions["config"], connect_simulated_node(shared_rolled_back_app)
    monkeypatch.setitem(
        shared_rolled_back_app.extensions, "config", replace(config, public_url="https://panel.example.com")
    )
    monkeypatch.setattr(node, "options", replace(node.options, boot_seconds=0))
    monkeypatch.setattr(url_policy, "resolve", lambda name: [ip_address("1.1.1.1")])
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())
    session.remove()
    before = db.engine.begin_nested()

    def answer(environ, start_response):
        vars(g).clear()
        session.expire_all()
        return shared_rolled_back_app(environ, start_response)

    yield answer
    session.remove()
    before.rollback()
    platform.invalidate()


@pytest.mark.parametrize(("surface", "path", "method"), list(commit_and_run_tasks()))
def test_answers_are_as_documented(isolated_api, documents, ids, cast, surface, path, method):
    who = "billing" if "/billing" in path else {"user": "owner"}.get(surface, "admin")

    documents[surface].app = isolated_api
    operation = documents[surface][path][method]

    def ask(case):
        case.headers = {**(case.headers or {}), **cast.headers(who), "Accept-Encoding": "identity"}
        case.call_and_validate(checks=CHECKS)

    ask(build_example(operation, ids))

    @given(case=operation.as_strategy(), real=st.integers(0, 3))
    @settings(
        max_examples=MAX_EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def ask_anything(case, real):
        if real:
            case.path_parameters = with_ids(case.path_parameters, ids)
            case.body = with_ids(case.body, ids)
        ask(case)

    ask_anything()


def build_example(operation, ids):
    """What the reference shows as the example, for things that exist."""
    raw = operation.definition.raw
    paths = {each["name"]: "x" for each in raw["parameters"] if each["in"] == "path"}
    case = operation.Case(path_parameters=with_ids(paths, ids))
    if "requestBody" in raw:
        name = raw["requestBody"]["content"]["application/json"]["schema"]["$ref"].split("/")[-1]
        fields = operation.schema.raw_schema["components"]["schemas"][name]["properties"]
        examples = {field: facts["example"] for field, facts in fields.items() if "example" in facts}
        case.media_type, case.body = "application/json", with_ids(examples, ids)
    return case


def with_ids(value, ids):
    if isinstance(value, dict):
        known = {name: ids[name] for name, given in value.items() if name in ids and isinstance(given, str)}
        return {name: with_ids(inner, ids) for name, inner in value.items()} | known
    return [with_ids(each, ids) for each in value] if isinstance(value, list) else value

"""Generated requests for every documented operation: answers have documented statuses, headers and schemas.

The operations come from the committed documents, their requests from the served ones.
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

from api.docs import build_openapi_document
from panel.core.config import ROOT
from panel.core.db import db, session
from panel.services import instances, ssh_keys
from panel.services import settings as platform_settings
from panel.services.webhooks import subscriptions, url_policy
from panel.workflows import waiting
from tests.support import cast as support_cast
from tests.support.operations import recorded_schedule  # noqa: F401  (fixture)
from tests.support.simulated_node import connect_simulated_node
from tests.support.task_queue import run_queued_calls
from worker.engine import runner

pytestmark = pytest.mark.slow_proof("malformed-input")

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
MAX_EXAMPLES_PER_OPERATION = 8
SSH_PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBn2Uh7GkVjmUqjSDkP0nCq3xk1E5G7e6rYV5mW9uQxJ"
ALTERNATIVE_FIELDS = {"key_id": "ssh_key_id", "group_id": "hypervisor_group_id", "location_id": "hypervisor_group_id"}
ALTERNATIVE_FIELDS |= {
    "user_id": "account_id",
    "subscription_id": "webhook_subscription_id",
    "delivery_id": "webhook_delivery_id",
}


def list_operations():
    for surface in ("user", "admin"):
        document = json.loads((ROOT / "api" / "openapi" / f"{surface}.json").read_text())
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                yield pytest.param(surface, path, method, id=operation["operationId"])


@pytest.fixture(scope="module")
def documents(app):
    """Load both documents. Undocumented fields in answers fail here, although clients must ignore them."""
    schemas = {}
    for surface in ("user", "admin"):
        document = json.loads(json.dumps(build_openapi_document(app, surface.upper())))
        for schema in document["components"]["schemas"].values():
            schema.setdefault("additionalProperties", False)
        schemas[surface] = schemathesis.openapi.from_dict(document)
    return schemas


@pytest.fixture(scope="module")
def cast(shared_rolled_back_app):
    original = shared_rolled_back_app.cast
    rows = {name: session.merge(getattr(original, name)) for name in support_cast.ROWS}
    return support_cast.Cast(**rows, tokens=dict(original.tokens))


@pytest.fixture(scope="module")
def ids(cast, documents):
    """Return one id of each table that has rows, by field name. Rows with an account belong to the owner."""
    instance = cast.instance()
    ssh_keys.create(cast.owner, name="laptop", public_key=SSH_PUBLIC_KEY)
    hook = {"url": "https://1.1.1.1/", "secret": "s" * 16, "event_kinds": ["*"]}
    subscriptions.send_test(subscriptions.create(cast.owner, name="hook", **hook), "instance.created")
    deploy, _ = instances.deploy(instance, account=cast.owner, actor="test", image_id=cast.image.id)
    session.commit()
    runner.run(deploy.id, "test-worker")
    platform_settings.update({name: 10**6 for name in vars(platform_settings.get()) if name.startswith("rate_limit_")})
    session.commit()
    ids = {}
    for mapper in db.Model.registry.mappers:
        rows = db.select(mapper.class_)
        if "account_id" in mapper.columns:
            rows = rows.filter_by(account_id=cast.owner.id)
        row = session.scalars(rows.limit(1)).first()
        if row is not None and hasattr(row, "id"):
            ids[f"{mapper.local_table.name.removesuffix('s')}_id"] = row.id
    ids |= {"account_id": cast.owner.id, "instance_id": instance.id}
    return ids | {name: ids[same] for name, same in ALTERNATIVE_FIELDS.items() if same in ids}


@pytest.fixture
def isolated_api(shared_rolled_back_app, ids, monkeypatch, recorded_schedule):
    """Yield the WSGI application for one operation and roll back its changes. Queued calls run while a request waits
    for a worker, guests have booted, and every host name resolves."""
    config, node = shared_rolled_back_app.extensions["config"], connect_simulated_node(shared_rolled_back_app)
    monkeypatch.setitem(
        shared_rolled_back_app.extensions, "config", replace(config, public_url="https://panel.example.com")
    )
    monkeypatch.setattr(node, "options", replace(node.options, boot_seconds=0))
    monkeypatch.setattr(url_policy, "resolve", lambda name: [ip_address("1.1.1.1")])
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())
    session.remove()
    savepoint = db.engine.begin_nested()

    def handle_request(environ, start_response):
        vars(g).clear()
        session.expire_all()
        return shared_rolled_back_app(environ, start_response)

    yield handle_request
    session.remove()
    savepoint.rollback()
    platform_settings.invalidate()


@pytest.mark.parametrize(("surface", "path", "method"), list(list_operations()))
def test_answers_match_the_openapi_document(isolated_api, documents, ids, cast, surface, path, method):
    caller = "billing" if "/billing" in path else {"user": "owner"}.get(surface, "admin")

    documents[surface].app = isolated_api
    operation = documents[surface][path][method]

    def send(case):
        case.headers = {**(case.headers or {}), **cast.headers(caller), "Accept-Encoding": "identity"}
        case.call_and_validate(checks=CHECKS)

    send(build_example(operation, ids))

    @given(case=operation.as_strategy(), real=st.integers(0, 3))
    @settings(
        max_examples=MAX_EXAMPLES_PER_OPERATION,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def send_generated(case, real):
        if real:
            case.path_parameters = replace_ids(case.path_parameters, ids)
            case.body = replace_ids(case.body, ids)
        send(case)

    send_generated()


def build_example(operation, ids):
    """Build the request from the documented examples, with ids of existing rows."""
    raw = operation.definition.raw
    paths = {parameter["name"]: "x" for parameter in raw["parameters"] if parameter["in"] == "path"}
    case = operation.Case(path_parameters=replace_ids(paths, ids))
    if "requestBody" in raw:
        name = raw["requestBody"]["content"]["application/json"]["schema"]["$ref"].split("/")[-1]
        fields = operation.schema.raw_schema["components"]["schemas"][name]["properties"]
        examples = {field: facts["example"] for field, facts in fields.items() if "example" in facts}
        case.media_type, case.body = "application/json", replace_ids(examples, ids)
    return case


def replace_ids(value, ids):
    if isinstance(value, dict):
        known_ids = {name: ids[name] for name, old_id in value.items() if name in ids and isinstance(old_id, str)}
        return {name: replace_ids(inner, ids) for name, inner in value.items()} | known_ids
    return [replace_ids(item, ids) for item in value] if isinstance(value, list) else value

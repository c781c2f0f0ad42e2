"""The unmodified Python SDK of E2B against a running panel with a simulated hypervisor (SBX-03, SBX-08)."""

import json
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection

import pytest
from e2b import (
    AuthenticationException,
    NotFoundException,
    Sandbox,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
)

from panel.pages.customer.microvm_api_keys import PYTHON_LIFECYCLE
from tests.support.microvms import prepare_microvms

pytestmark = pytest.mark.processes


@pytest.fixture
def options(installation, customer):
    """The options of the SDK: the address of a running panel, and a key."""
    prepare_microvms(installation)
    installation.start_all()
    key = customer.call("POST", "/api/microvm/api-keys", {"name": "sdk"})["key"]
    return {"api_url": f"{installation.url}/api/sbx", "api_key": key}


def list_ids(options, **query):
    paginator, ids = Sandbox.list(**options, **query), []
    while paginator.has_next:
        ids += [row.sandbox_id for row in paginator.next_items()]
    return ids


def test_sdk_performs_the_life_cycle(customer, options, monkeypatch):
    location = customer.call("GET", "/api/cloud-service/locations")["data"][0]["id"]
    metadata = {"location_id": location, "owner": "a b&c=d/é+%"}
    sandbox = Sandbox.create(timeout=120, metadata=metadata, envs={"MODE": "test"}, **options)
    other = Sandbox.create(**options)

    info = sandbox.get_info()
    assert (info.metadata, info.state, info.name) == (metadata, SandboxState.RUNNING, "base")
    assert abs(info.end_at - datetime.now(UTC) - timedelta(seconds=120)) < timedelta(seconds=60)

    both = [other.sandbox_id, sandbox.sandbox_id]
    assert list_ids(options) == both
    assert list_ids(options, limit=1) == both
    assert list_ids(options, query=SandboxQuery(metadata={"owner": metadata["owner"]})) == [sandbox.sandbox_id]
    assert list_ids(options, query=SandboxQuery(state=[SandboxState.RUNNING])) == both

    sandbox.set_timeout(600)
    assert sandbox.get_info().end_at > info.end_at + timedelta(seconds=300)
    assert sandbox.pause() is not False
    assert sandbox.get_info().state == SandboxState.PAUSED
    assert list_ids(options, query=SandboxQuery(state=[SandboxState.PAUSED])) == [sandbox.sandbox_id]
    connected = Sandbox.connect(sandbox.sandbox_id, timeout=300, **options)
    assert connected.get_info().state == SandboxState.RUNNING

    assert connected.kill() is True
    assert connected.kill() is False
    with pytest.raises(SandboxNotFoundException):
        connected.get_info()
    with pytest.raises(NotFoundException):
        Sandbox.connect("unknown", **options)
    with pytest.raises(SandboxException, match="404"):
        Sandbox.create(template="nothing", **options)
    with pytest.raises(SandboxException, match="400"):
        Sandbox.create(metadata={"location_id": "nowhere"}, **options)
    with pytest.raises(AuthenticationException):
        Sandbox.create(**{**options, "api_key": "e2b_" + "0" * 40})
    assert list_ids(options) == [other.sandbox_id]

    monkeypatch.setenv("E2B_API_URL", options["api_url"])
    monkeypatch.setenv("E2B_API_KEY", options["api_key"])
    exec(PYTHON_LIFECYCLE, {})  # the example of the page
    assert list_ids(options) == [other.sandbox_id]
    check_chunked_body(options)
    (key,) = customer.call("GET", "/api/microvm/api-keys")["data"]
    assert key["last_used_at"]


def check_chunked_body(options):
    """The JavaScript SDK sends every body in chunks."""
    host, _, path = options["api_url"].removeprefix("http://").partition("/")
    connection = HTTPConnection(host)
    chunks = iter([b'{"templateID"', b':"base"}'])
    headers = {"X-API-Key": options["api_key"], "Content-Type": "application/json"}
    connection.request("POST", f"/{path}/v2/sandboxes", chunks, headers, encode_chunked=True)
    answer = connection.getresponse()
    assert (answer.status, json.load(answer)["alias"]) == (201, "base")
    connection.close()

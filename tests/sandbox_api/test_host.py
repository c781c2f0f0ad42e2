"""The sandbox API at a host name of its own."""

import pytest


@pytest.fixture
def call_host(rolled_back_app, change_config):
    """Return a function that reads paths of a host, with a domain configured."""
    change_config(sandbox_domain="sbx.example.net")
    return lambda host, path: rolled_back_app.test_client().get(path, headers={"Host": host})


@pytest.mark.parametrize("host", ["api.sbx.example.net", "API.sbx.example.net", "api.sbx.example.net:8443"])
def test_host_of_the_domain_serves_the_api_at_its_root(call_host, host):
    """SBX-10"""
    assert call_host(host, "/health").status_code == 204


@pytest.mark.parametrize("path", ["/", "/sign-in", "/api/instances", "/api/sbx/health", "/healthz"])
def test_host_of_the_domain_serves_nothing_else(call_host, path):
    answer = call_host("api.sbx.example.net", path)
    assert (answer.status_code, answer.json["code"]) == (404, 404)


@pytest.mark.parametrize(
    "host", ["localhost", "sbx.example.net", "api.sbx.example.net.evil.example", "8080-a.sbx.example.net"]
)
def test_other_hosts_serve_it_below_its_prefix(call_host, host):
    assert call_host(host, "/health").status_code == 404
    assert call_host(host, "/api/sbx/health").status_code == 204


def test_without_a_domain_there_is_no_such_host(call_host, change_config):
    change_config(sandbox_domain="")
    assert call_host("api.", "/api/sbx/health").status_code == 204

"""Which sandbox and port a request reaches, and what SDKs are answered when it reaches none."""

import asyncio

import pytest

from tests.sandbox_router.lab import (
    DOMAIN,
    OTHER_SANDBOX_ID,
    SANDBOX_ID,
    answer_with_request,
    build_route,
    find_closed_port,
    make_headers,
    make_host,
    run_program,
)
from tests.support.mux_ends import run
from worker.nodes.base import Refused, Unreachable
from worker.sandbox_router import routes

NOT_FOUND = {"sandboxId": SANDBOX_ID, "message": "The sandbox was not found", "code": 502}


def test_host_name_and_headers_lead_to_the_port(lab):
    async def check():
        async with lab.run_router(), run_program(answer_with_request) as port:
            for options in (
                {"host": make_host(port)},
                {"host": f"{make_host(port).upper()}.:8443"},
                {"headers": make_headers(port)},
                {"headers": make_headers(port), "host": "panel.example.com"},
            ):
                status, body = await lab.call("/a?b=c", **options, method="POST", body=b"content")
                assert status == 200
                assert body.startswith(b"POST /a?b=c HTTP/1.1\r\nHost: ")
                assert body.endswith(b"\r\n\r\ncontent")

    run(check())


def test_headers_do_not_count_on_a_host_of_the_domain(lab):
    async def check():
        lab.rows[OTHER_SANDBOX_ID] = build_route(OTHER_SANDBOX_ID)
        async with lab.run_router(), run_program(answer_with_request) as port:
            headers = make_headers(port, OTHER_SANDBOX_ID)
            closed_port = find_closed_port()
            status, body = await lab.call(host=make_host(closed_port), headers=headers)
            assert (status, body["sandboxId"], body["port"]) == (502, SANDBOX_ID, closed_port)
            assert (await lab.call(host=f"api.{DOMAIN}", headers=headers))[0] == 400

    run(check())


@pytest.mark.parametrize(
    "options",
    [
        {"host": DOMAIN},
        {"host": f"www.{DOMAIN}"},
        {"host": f"80-{SANDBOX_ID}.more.{DOMAIN}"},
        {"host": make_host(0)},
        {"host": make_host(65536)},
        {"host": make_host(80, "a-b")},
        {"headers": make_headers(0)},
        {"headers": make_headers("80x")},
        {"headers": make_headers(80, "../x")},
        {"headers": {"E2b-Sandbox-Id": SANDBOX_ID}},
        {"headers": {"E2b-Sandbox-Port": "80"}},
        {"target": f"http://{make_host(80)}/", "headers": make_headers(80)},
        {},
    ],
)
def test_wrong_names_are_bad_requests(lab, options):
    async def check():
        async with lab.run_router():
            status, body = await lab.call(**options)
            assert (status, body["code"]) == (400, 400)
            assert lab.lookups == 0

    run(check())


@pytest.mark.parametrize("state", ["pausing", "paused", "stopping", "stopped", "destroying", "failed", "expired", None])
def test_sandbox_that_does_not_run_is_not_found(lab, state):
    async def check():
        lab.rows[SANDBOX_ID] = state and build_route(state=state)
        async with lab.run_router():
            assert await lab.call(host=make_host(49983)) == (502, NOT_FOUND)
            assert lab.events == []

    run(check())


def test_sandbox_that_starts_is_waited_for(lab, monkeypatch):
    async def check():
        lab.rows[SANDBOX_ID] = build_route(state="starting")
        async with lab.run_router(), run_program(answer_with_request) as port:
            call = asyncio.create_task(lab.call(host=make_host(port)))
            await asyncio.sleep(0.4)
            lab.rows[SANDBOX_ID] = build_route()
            assert (await call)[0] == 200
            lab.rows[SANDBOX_ID] = build_route(state="starting")
            monkeypatch.setattr(routes, "START_SECONDS", 0.3)
            await asyncio.sleep(routes.CACHE_SECONDS)
            unreachable = {**NOT_FOUND, "message": "The sandbox does not respond"}
            assert await lab.call(host=make_host(port)) == (502, unreachable)

    run(check())


def test_port_without_program_has_its_own_answer(lab):
    async def check():
        async with lab.run_router():
            port = find_closed_port()
            message = "The sandbox is running but port is not open"
            body = {"sandboxId": SANDBOX_ID, "port": port, "message": message, "code": 502}
            assert await lab.call(host=make_host(port)) == (502, body)

    run(check())


@pytest.mark.parametrize(
    ("error", "text"),
    [(Refused("off"), NOT_FOUND["message"]), (Unreachable("lost"), "The sandbox does not respond")],
)
def test_channel_that_cannot_be_opened(lab, error, text):
    async def check():
        lab.channel_error = error
        async with lab.run_router():
            status, body = await lab.call(host=make_host(49983))
            assert (status, body["message"]) == (502, text)
            lab.channel_error = None
            async with run_program(answer_with_request) as port:
                assert (await lab.call(host=make_host(port)))[0] == 200

    run(check())


@pytest.mark.parametrize(
    "path", ["/init", "/freeze?x=1", "/%69nit", "//fsthaw/", "/collapse", "/unfreeze", "/fsfreeze"]
)
def test_control_routes_of_the_daemon_are_closed(lab, path):
    async def check():
        async with lab.run_router(), run_program(answer_with_request) as port:
            lab.ports[49983] = port
            status, body = await lab.call(path, host=make_host(49983), method="POST")
            assert (status, body["code"], lab.events) == (404, 404, [])
            assert (await lab.call(path, host=make_host(port), method="POST"))[0] == 200, "other ports have their own"

    run(check())


def test_health_check_and_preflight_without_sandbox(lab):
    async def check():
        async with lab.run_router(), run_program(answer_with_request) as port:
            assert (await lab.call("/healthz"))[0] == 204
            headers = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a"}
            answer = await lab.send(b"OPTIONS / HTTP/1.1\r\nHost: a\r\nAccess-Control-Request-Method: POST\r\n\r\n")
            assert b"204 " in answer
            assert b"Access-Control-Allow-Origin: *" in answer
            status, body = await lab.call(host=make_host(port), method="OPTIONS", headers=headers)
            assert status == 200
            assert body.startswith(b"OPTIONS / "), "the program answers itself"
            assert lab.lookups == 1

    run(check())

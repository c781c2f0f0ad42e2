"""Connectors: labels of the sandbox domain that lead to a port of a micro VM."""

import pytest
from sqlalchemy.exc import OperationalError

from tests.sandbox_router.lab import (
    DOMAIN,
    SANDBOX_ID,
    answer_with_request,
    build_request,
    build_route,
    find_closed_port,
    make_headers,
    run_program,
)
from tests.support.mux_ends import run
from worker.nodes.base import Unreachable

HOST = f"shop.{DOMAIN}"


def test_label_is_the_way_to_the_port(lab):
    async def check():
        async with lab.run_router(), run_program(answer_with_request) as port:
            lab.connectors["shop"] = SANDBOX_ID, port
            for host in (HOST, f"{HOST.upper()}.:8443"):
                status, body = await lab.call("/a?b=c", host=host, method="POST", body=b"content")
                assert (status, body.endswith(b"\r\n\r\ncontent")) == (200, True)
                assert f"Host: {host}".encode() in body

    run(check())


def test_headers_do_not_count_on_the_host_of_a_connector(lab):
    async def check():
        async with lab.run_router(), run_program(answer_with_request) as port:
            assert (await lab.call(host=HOST, headers=make_headers(port)))[0] == 404

    run(check())


@pytest.mark.parametrize("label", ["unknown", "a--b", "-", "x" * 63])
def test_unknown_label_is_not_found(lab, label):
    async def check():
        async with lab.run_router():
            answer = {"message": "There is no such address", "code": 404}
            assert await lab.call(host=f"{label}.{DOMAIN}") == (404, answer)
            assert lab.lookups == 0

    run(check())


@pytest.mark.parametrize("label", ["api", "sandbox", "www", "80-", "80-a-b", "x" * 64, "more.shop", "a_b"])
def test_label_that_no_connector_can_have_is_a_bad_request(lab, label):
    async def check():
        lab.connectors[label] = SANDBOX_ID, 80
        async with lab.run_router():
            assert (await lab.call(host=f"{label}.{DOMAIN}"))[0] == 400

    run(check())


@pytest.mark.parametrize("state", ["paused", "pausing", "stopped", "destroying", "failed", "expired", None])
def test_micro_vm_that_does_not_run_is_a_bad_gateway(lab, state):
    async def check():
        lab.connectors["shop"] = SANDBOX_ID, 80
        lab.rows[SANDBOX_ID] = state and build_route(state=state)
        async with lab.run_router():
            answer = {"message": "The micro VM of this address is not running", "code": 502}
            assert await lab.call(host=HOST) == (502, answer)
            assert lab.events == []

    run(check())


def test_answers_do_not_show_the_id_of_the_sandbox(lab):
    """With the id every port of the sandbox can be reached."""

    async def check():
        lab.connectors |= {"shop": (SANDBOX_ID, find_closed_port()), "daemon": (SANDBOX_ID, 49983)}
        async with lab.run_router(max_streams=1) as router:
            answers = [await lab.send(build_request(host=HOST))]
            answers.append(await lab.send(build_request("/init", host=f"daemon.{DOMAIN}")))
            router.channels.max_streams = 0
            answers.append(await lab.send(build_request(host=HOST)))
            router.channels.max_streams = 1
            router.channels.close_idle(0)
            lab.channel_error = Unreachable("lost")
            answers.append(await lab.send(build_request(host=HOST, headers={"Accept": "text/html"})))
        assert [int(answer.split()[1]) for answer in answers] == [502, 404, 429, 502]
        assert not [answer for answer in answers if SANDBOX_ID.encode() in answer]
        assert b"no program answers at its port" in answers[0]
        assert b"does not respond" in answers[3]

    run(check())


def test_browser_gets_a_page(lab):
    async def check():
        lab.connectors["shop"] = SANDBOX_ID, 80
        lab.rows[SANDBOX_ID] = build_route(state="paused")
        async with lab.run_router():
            headers = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
            answer = (await lab.send(build_request(host=HOST, headers=headers))).decode()
            assert answer.startswith("HTTP/1.1 502 ")
            assert "Content-Type: text/html; charset=utf-8" in answer
            assert "Cache-Control: no-store" in answer
            assert "<h1>502 Bad Gateway</h1><p>The micro VM of this address is not running.</p>" in answer
            assert answer.endswith("</html>\n")
            head = await lab.send(build_request(host=HOST, headers=headers, method="HEAD"))
            assert head.endswith(b"\r\n\r\n")

    run(check())


def test_removed_connector_is_refused_immediately(lab):
    async def check():
        async with lab.run_router(), run_program(answer_with_request) as port:
            lab.connectors["shop"] = SANDBOX_ID, port
            assert (await lab.call(host=HOST))[0] == 200
            del lab.connectors["shop"]
            assert (await lab.call(host=HOST))[0] == 404

    run(check())


def test_database_that_does_not_answer_is_unavailable(lab):
    async def check():
        async with lab.run_router() as router:

            def fail(_label):
                raise OperationalError("select", {}, Exception("away"))

            router.routes.find_connector = fail
            assert (await lab.call(host=HOST))[0] == 503

    run(check())


@pytest.mark.parametrize("by", ["connector", "headers"])
def test_websocket_upgrade(lab, by):
    async def serve(reader, writer):
        assert b"Upgrade: websocket" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        while data := await reader.read(1000):
            writer.write(data.upper())

    async def check():
        async with lab.run_router(), run_program(serve) as port, lab.connect() as (reader, writer):
            lab.connectors["shop"] = SANDBOX_ID, port
            headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
            headers |= make_headers(port) if by == "headers" else {}
            writer.write(build_request(host=HOST if by == "connector" else None, headers=headers))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            for _turn in range(2):
                writer.write(b"hello")
                assert await reader.readexactly(5) == b"HELLO"
            writer.write_eof()
            assert await reader.read() == b""

    run(check())

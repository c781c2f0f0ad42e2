"""The code interpreter of sandboxes, as the unmodified SDK uses it, through a running panel and its router."""

import json
import urllib.error
import urllib.request

import pytest
from e2b import NotFoundException, SandboxException, TimeoutException
from e2b_code_interpreter import Sandbox

from worker.sandbox_guest.code_contexts import MAX_CONTEXTS

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def sandbox(platform):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in platform.build_environment().items():
            patch.setenv(name, value)
        with Sandbox.create(timeout=900, envs={"MODE": "test"}) as created:
            yield created


def test_results(sandbox):
    assert sandbox.run_code("x = 1\nx + 1").text == "2"
    assert sandbox.run_code("x").text == "1"
    assert sandbox.run_code("x = 2").text is None
    assert sandbox.run_code("import asyncio\nawait asyncio.sleep(0, 'awaited')").text == "'awaited'"
    code = "class Table:\n def _repr_html_(self): return '<p>'\n def _repr_png_(self): return b'1'\n"
    execution = sandbox.run_code(code + " def _repr_json_(self): return {'a': 1}\n def _repr_svg_(self): 1 / 0\n"
                                 "display(Table())\nTable()")  # fmt: skip
    assert [result.is_main_result for result in execution.results] == [False, True]
    assert [(result.html, result.png, result.json, result.svg) for result in execution.results] == 2 * [
        ("<p>", "MQ==", {"a": 1}, None)
    ]
    assert sandbox.run_code("1").execution_count == sandbox.run_code("1").execution_count - 1


def test_output_is_streamed_in_order(sandbox):
    sandbox.files.write("seen", "")
    code = "import os, time\nprint('one')\nos.system('echo two; echo problem >&2')\n"
    seen = []
    execution = sandbox.run_code(
        code + "while os.path.exists('seen'): time.sleep(0.01)",
        on_stdout=lambda message: (
            (seen.append(message.line), sandbox.files.remove("seen")) if "two" in message.line else 0
        ),
    )
    assert "".join(execution.logs.stdout) == "one\ntwo\n"
    assert execution.logs.stderr == ["problem\n"]
    assert len("".join(sandbox.run_code("print('x' * 2_000_000)").logs.stdout)) == 2_000_001


def test_errors(sandbox):
    error = sandbox.run_code("def divide():\n    1 / 0\ndivide()").error
    assert (error.name, error.value) == ("ZeroDivisionError", "division by zero")
    assert "line 2, in divide\n    1 / 0" in error.traceback
    assert "sandbox_guest" not in error.traceback
    assert sandbox.run_code("x ===").error.name == "SyntaxError"
    assert sandbox.run_code("exit(3)").error.name == "SystemExit"
    with pytest.raises(SandboxException, match="only the language python"):
        sandbox.run_code("1", language="javascript")
    with pytest.raises(SandboxException, match="does not exist"):
        sandbox.create_code_context(cwd="/absent")


def test_environment(sandbox):
    code = "import os; [os.environ.get(name) for name in ('MODE', 'OWN', 'USER')]"
    assert sandbox.run_code(code, envs={"OWN": "1"}).text == "['test', '1', 'user']"
    assert sandbox.run_code(code).text == "['test', None, 'user']"


def test_time_limit_interrupts_code_and_keeps_the_namespace(sandbox):
    sandbox.run_code("kept = 1")
    with pytest.raises(TimeoutException):
        sandbox.run_code("while True: pass", timeout=1)
    assert sandbox.run_code("kept").text == "1"


def test_code_that_ignores_interrupts_is_killed(sandbox):
    context = sandbox.create_code_context()
    code = "while True:\n try:\n  while True: sum(range(1000))\n except KeyboardInterrupt: pass"
    with pytest.raises(TimeoutException):
        sandbox.run_code(code, context=context, timeout=1)
    assert sandbox.run_code("1", context=context).text == "1"
    sandbox.remove_code_context(context)


def test_contexts(sandbox):
    sandbox.run_code("shared = 1")
    context = sandbox.create_code_context(cwd="/tmp")
    assert (context.language, context.cwd) == ("python", "/tmp")
    assert sandbox.run_code("import os; os.getcwd()", context=context).text == "'/tmp'"
    assert sandbox.run_code("shared", context=context).error.name == "NameError"
    assert context.id in [row.id for row in sandbox.list_code_contexts()]
    sandbox.restart_code_context(context)
    assert sandbox.run_code("os", context=context).error.name == "NameError"
    died = sandbox.run_code("import os\nprint('last')\nos._exit(1)", context=context)
    assert (died.error.name, died.logs.stdout) == ("KernelDied", ["last\n"])
    assert sandbox.run_code("2", context=context).text == "2"
    sandbox.remove_code_context(context)
    for call in (
        sandbox.remove_code_context,
        sandbox.restart_code_context,
        lambda gone: sandbox.run_code("1", context=gone),
    ):
        with pytest.raises(NotFoundException):
            call(context)
    for _number in range(MAX_CONTEXTS - len(sandbox.list_code_contexts())):
        sandbox.create_code_context()
    with pytest.raises(SandboxException, match="429"):
        sandbox.create_code_context()
    for row in sandbox.list_code_contexts():
        sandbox.remove_code_context(row)


def test_output_that_is_closed_or_never_ends_does_not_delay_the_end(sandbox):
    assert sandbox.run_code("import os, subprocess\nos.close(1)\n5").text == "5"
    assert sandbox.run_code("endless = subprocess.Popen(['yes'], stdout=2)\n6").text == "6"
    assert sandbox.run_code("endless.kill()\n7").text == "7"


def test_requests_need_a_token(platform, sandbox):
    """What another program may send that knows the name of the sandbox."""

    def send(method, path, **headers):
        headers = {
            "E2b-Sandbox-Id": sandbox.sandbox_id,
            "E2b-Sandbox-Port": "49999",
            "Origin": "https://a.test",
            **headers,
        }
        url, body = f"http://{platform.router}{path}", b'{"code": "1"}' if method == "POST" else None
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, body, headers, method=method), timeout=20
            ) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read(), answer.headers

    traffic = {"E2B-Traffic-Access-Token": sandbox.traffic_access_token}
    for method, path in (("POST", "/execute"), ("GET", "/contexts"), ("POST", "/contexts"), ("DELETE", "/contexts/x")):
        status, body, headers = send(method, path, **{"X-Access-Token": "wrong", "E2B-Traffic-Access-Token": "wrong"})
        assert (status, json.loads(body)["code"]) == (401, 401)
        assert headers["Access-Control-Allow-Origin"] == "*"
    assert send("POST", "/execute", **traffic)[0] == 401
    assert send("POST", "/execute", **{"X-Access-Token": sandbox.traffic_access_token})[0] == 401
    assert send("GET", "/contexts", **traffic)[0] == 200
    assert send("GET", "/health")[0] == 204
    status, _body, headers = send("OPTIONS", "/contexts", **{"Access-Control-Request-Method": "DELETE"})
    assert (status, "DELETE" in headers["Access-Control-Allow-Methods"]) == (204, True)

"""The code of docs/sandboxes-quickstart.md and docs/examples, as it stands, against a running panel."""

import importlib.util
import shutil
import sys

import pytest
from e2b import Sandbox

from panel.core.config import ROOT
from tests.sandbox_clients.documents import list_blocks
from tests.support import sandbox_clients

pytestmark = pytest.mark.processes

DOCUMENT = "sandboxes-quickstart.md"
EXAMPLE = ROOT / "docs" / "examples" / "agent_loop.py"


def join_program(heading):
    """Return the code below a heading, without the line that installs the SDK."""
    install, *blocks = list_blocks(DOCUMENT, heading)
    assert install.startswith(("pip install", "npm install"))
    return "".join(blocks)


def check_output(output):
    lines = output.splitlines()
    assert lines[0] == "Hello from test"
    assert "1 ModuleNotFoundError: No module named 'missing'" in lines
    assert output.count("1\n2\n3\n") == 1
    assert output.count("3\n1\n2\n") == 2
    assert "running" in lines[-1]


@pytest.fixture
def use_environment(platform, monkeypatch):
    for name, value in platform.build_environment().items():
        monkeypatch.setenv(name, value)


def list_sandboxes():
    return Sandbox.list().next_items()


@pytest.mark.parametrize("form", ["path", "domain"])
def test_python_quickstart(platform, use_environment, tmp_path, form):
    (tmp_path / "quickstart.py").write_text(join_program("Python"))
    check_output(platform.run(sys.executable, tmp_path / "quickstart.py", form=form))
    assert not list_sandboxes()


def test_javascript_quickstart(platform, use_environment, tmp_path):
    (tmp_path / "node_modules").symlink_to(sandbox_clients.find_node_modules())
    (tmp_path / "quickstart.mjs").write_text(join_program("JavaScript"))
    check_output(platform.run("node", tmp_path / "quickstart.mjs"))
    assert not list_sandboxes()


def test_code_interpreter_quickstart(platform, use_environment, tmp_path):
    (tmp_path / "quickstart.py").write_text(join_program("Code interpreter"))
    output = platform.run(sys.executable, tmp_path / "quickstart.py")
    assert output == "['3\\n'] [1, 2, 3]\nZeroDivisionError\n"
    assert not list_sandboxes()


def test_agent_example(platform, use_environment, tmp_path):
    output = platform.run(sys.executable, shutil.copy(EXAMPLE, tmp_path))
    assert "NameError" in output
    assert output.splitlines()[-1] == "Answer: 338350"
    assert not list_sandboxes()


def test_agent_example_limits_time_and_output(use_environment, monkeypatch):
    spec = importlib.util.spec_from_file_location("agent_loop", EXAMPLE)
    monkeypatch.setitem(sys.modules, "agent_loop", example := importlib.util.module_from_spec(spec))
    spec.loader.exec_module(example)
    monkeypatch.setattr(example, "CODE_TIMEOUT_SECONDS", 1)
    codes = iter(["while True: pass", "print('x' * 100_000)", "import os; os.kill(os.getpid(), 9)"])
    seen = []

    def propose(_task, steps):
        seen[:] = [step.output for step in steps]
        return {"code": next(codes)}

    with pytest.raises(StopIteration):
        example.run_agent("a task", propose)
    assert seen[0] == "(stopped after 1 seconds)"
    assert len(seen[1]) < example.MAX_OUTPUT_BYTES + 100
    assert "exit code 137" in seen[2]
    assert not list_sandboxes()

"""Executes Python code that arrives on a socket, in one lasting namespace.

A request is a line of JSON, `{"code", "env_vars", "number"}`. Events are lines of JSON, too: results, an error, and
`{"type": "done"}` last. What the code prints goes to the standard output and error of this process.
"""

import ast
import asyncio
import base64
import builtins
import inspect
import json
import linecache
import os
import signal
import socket
import sys
import traceback
import types
from typing import Any, TextIO

REPRESENTATIONS = {
    "html": "_repr_html_",
    "markdown": "_repr_markdown_",
    "svg": "_repr_svg_",
    "png": "_repr_png_",
    "jpeg": "_repr_jpeg_",
    "pdf": "_repr_pdf_",
    "latex": "_repr_latex_",
    "json": "_repr_json_",
    "javascript": "_repr_javascript_",
}
"""The methods of objects that show themselves in other ways than as text, by the names of the clients."""


class Kernel:
    """Executes code. A value at the end of the code is its result."""

    def __init__(self, events: TextIO):
        self.events = events
        self.module = types.ModuleType("__main__")
        self.module.__dict__.update(__builtins__=builtins, display=self.display)
        sys.modules["__main__"] = self.module
        self.loop = asyncio.new_event_loop()

    def send(self, kind: str, **fields: Any) -> None:
        self.events.write(json.dumps({"type": kind, **fields}) + "\n")
        self.events.flush()

    def display(self, *values: Any) -> None:
        """Send values as further results of the code."""
        for value in values:
            self.send("result", is_main_result=False, **describe_value(value))

    def execute(self, request: dict[str, Any]) -> None:
        """Execute the code of a request and send its events."""
        previous = {name: os.environ.get(name) for name in request["env_vars"]}
        os.environ.update(request["env_vars"])
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            value = self.run(request["code"], f"<cell {request['number']}>")
            if value is not None:
                self.module.__dict__["_"] = value
                self.send("result", is_main_result=True, **describe_value(value))
        except BaseException as error:  # also SystemExit: the namespace lasts
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.send("error", name=type(error).__name__, value=str(error), traceback=describe_error(error))
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for name, text in previous.items():
                os.environ.pop(name, None) if text is None else os.environ.update({name: text})
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        self.send("done")

    def run(self, code: str, name: str) -> Any:
        """Execute the code and return the value of its last expression, or None."""
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        tree: Any = compile(code, name, "exec", ast.PyCF_ONLY_AST)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        self.evaluate(tree, name, "exec")
        return self.evaluate(ast.Expression(last.value), name, "eval") if isinstance(last, ast.Expr) else None

    def evaluate(self, tree: ast.Module | ast.Expression, name: str, mode: str) -> Any:
        program = compile(tree, name, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(program, self.module.__dict__)
        if program.co_flags & inspect.CO_COROUTINE:
            value = self.loop.run_until_complete(value)
        return value


def describe_value(value: Any) -> dict[str, Any]:
    """Return the representations of a value. Those that fail are left out."""
    fields: dict[str, Any] = {"text": repr(value)}
    for name, method in REPRESENTATIONS.items():
        try:
            content = getattr(value, method)() if not isinstance(value, type) else None
            if isinstance(content, tuple):  # with metadata
                content = content[0]
            json.dumps(content := base64.b64encode(content).decode() if isinstance(content, bytes) else content)
        except Exception:
            continue
        if content is not None:
            fields[name] = content
    return fields


def describe_error(error: BaseException) -> str:
    """Return the traceback, without the frames of this program."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def main() -> None:
    """Execute requests until the socket ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv.pop()))
    os.set_inheritable(connection.fileno(), False)
    sys.argv[:] = [""]
    for stream in (sys.stdout, sys.stderr):  # in order with what programs print that the code starts
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    kernel = Kernel(connection.makefile("w"))
    for line in connection.makefile():
        kernel.execute(json.loads(line))

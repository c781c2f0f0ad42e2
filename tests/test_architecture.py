"""The rules of the architecture, checked in the syntax trees and registries of the product."""

import ast
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from string import Formatter

import jinja2
import pytest
from babel.messages.pofile import read_po
from marshmallow import ValidationError

import api
import panel
from panel import models
from panel.auth import permissions
from panel.core import jobs, languages
from panel.core.db import db
from panel.core.errors import Problem
from panel.core.task_kinds import TASK_LABELS
from panel.services.instances.action_catalog import POWER_ACTIONS
from tests.support.operations import SURFACES, find_operations
from tests.support.product_code import (
    called_name,
    find_argument_strings,
    find_calls,
    find_strings,
    get_argument,
    parsed_templates,
    parsed_tests,
    product_modules,
)
from worker import nodes
from worker.engine import main
from worker.engine.registry import PERIODIC_JOBS, TASK_TYPES
from worker.nodes.base import NodeDriver, NodeError

ROOT = Path(panel.__file__).parent.parent


@pytest.mark.parametrize("surface", SURFACES)
def test_every_operation_has_id_summary_and_permission(app, surface):
    operations = list(find_operations(app, surface))
    assert len({operation["operationId"] for _, _, operation in operations}) == len(operations)
    for _, path, operation in operations:
        assert operation["summary"].endswith("."), path
        assert operation["x-permission"] in permissions.ALL_PERMISSIONS, path
        assert operation["x-permission"] != permissions.PUBLIC, path


def test_every_resource_is_registered():
    shared = {"docs", "errors", "idempotency", "kit", "paging", "request_parsing", "sandbox"}
    names = {module.name for module in pkgutil.iter_modules(api.__path__)} - shared
    assert names == {module.__name__.removeprefix("api.") for module in api.import_resources()}


COMMITTING_MODULES = (
    "panel.app",  # the end of a request
    "panel.workflows",
    "worker",
    "panel.cli",  # a command and the start of a process are no requests
    "panel.core.startup_checks",
    "panel.core.database_probe",
    "consoles.session_store",  # of the console server
)
ERROR_RENDERING_MODULES = ("api.errors", "panel.web.htmx", "panel.web.forms", "panel.web.platform_metrics")
WAITING_MODULES = (
    "panel.workflows",
    "worker",
    "panel.cli",
    "panel.core.database_probe",
    "panel.server",
    "panel.supervisor",
    "consoles",
)
WAITING_FUNCTIONS = {"sleep", "wait", "wait_for", "wait_until", "wait_for_task"}


def is_within(module, names):
    return any(f"{module.name}.".startswith(f"{name}.") for name in names)


def list_places(names, *, outside):
    return [module.place(call) for name in names for module, call in find_calls(name) if not is_within(module, outside)]


def test_only_workflows_commit_within_requests():
    assert list_places(["commit"], outside=COMMITTING_MODULES) == []
    assert len(list_places(["commit"], outside=())) > 50
    rollbacks = [
        module.place(call)
        for module, call in find_calls("rollback")
        if not is_within(module, COMMITTING_MODULES + ERROR_RENDERING_MODULES)
        and getattr(getattr(call.func, "value", None), "id", None) == "session"
    ]
    assert rollbacks == []


def test_only_workflows_wait_within_requests():
    assert list_places(WAITING_FUNCTIONS, outside=WAITING_MODULES) == []
    assert any("panel/workflows/" in place for place in list_places(WAITING_FUNCTIONS, outside=()))


def test_enqueued_task_kinds_have_handlers():
    assert main.HANDLER_MODULES
    kinds = find_argument_strings(jobs.enqueue, keyword="kind")
    assert {kind: place for kind, place in kinds.items() if kind not in TASK_TYPES} == {}
    assert {"instance_deploy", "volume_snapshot_delete", "forge_discard", "docker_control", "iso_mount"} <= kinds.keys()
    computed = {f"instance_{action.name}" for action in POWER_ACTIONS} | {"migration_live", "migration_cold"}
    assert computed <= TASK_TYPES.keys()


def find_decorated(name):
    """Yield (module, function) for each function with the decorator `@name(…)`."""
    for module in product_modules():
        for node in module.nodes:
            for decorator in getattr(node, "decorator_list", ()):
                if isinstance(decorator, ast.Call) and called_name(decorator) == name:
                    yield module, node


@pytest.mark.parametrize("decorator", ["task_handler", "periodic"])
def test_worker_imports_all_handlers_and_periodic_jobs(decorator):
    modules = {module.__name__ for module in main.HANDLER_MODULES}
    decorated = list(find_decorated(decorator))
    assert len(decorated) > 10
    assert {module.place(function) for module, function in decorated if module.name not in modules} == set()


def test_task_kinds_with_handlers_have_labels():
    assert TASK_LABELS.keys() == TASK_TYPES.keys()
    assert all(label.strip() for label in TASK_LABELS.values())


WEB_IMPORTS_SCRIPT = """
import json, sys
import panel.app
from panel.core.task_kinds import TASK_LABELS
print(json.dumps([sorted(TASK_LABELS), [name for name in sys.modules if name.partition(".")[0] == "worker"]]))
"""


def test_web_process_has_task_labels_without_worker_modules():
    answer = subprocess.run([sys.executable, "-c", WEB_IMPORTS_SCRIPT], cwd=ROOT, capture_output=True, check=True)
    kinds, worker_modules = json.loads(answer.stdout)
    assert kinds == sorted(TASK_TYPES)
    assert worker_modules == []


def test_periodic_jobs_have_importable_paths():
    assert [job.path for job in PERIODIC_JOBS if not is_callable_path(job.path)] == []
    assert len({job.path for job in PERIODIC_JOBS}) == len(PERIODIC_JOBS)
    assert all(job.seconds >= 1 for job in PERIODIC_JOBS)


def is_callable_path(path):
    try:
        return callable(pkgutil.resolve_name(path))
    except (ImportError, AttributeError, ValueError):
        return False


def test_enqueued_function_paths_are_importable():
    paths = {
        text: module.place(call)
        for name in ("enqueue_call", "enqueue")
        for module, call in find_calls(name)
        if (node := get_argument(call, 0)) is not None
        for text in find_strings(module, node)
        if name == "enqueue_call" or "." in text
    }
    assert {path: place for path, place in paths.items() if not is_callable_path(path)} == {}
    assert {"worker.engine.runner.run", "worker.engine.pool.on_message"} <= paths.keys()


def find_rollback_steps():
    """Yield (driver method, place) of each `work.undo("method", …)` and each `work.update(rollback_steps=[[…]])`."""
    for module, call in find_calls("undo"):
        for method in find_strings(module, call.args[0]):
            yield method, module.place(call)
    for module, call in find_calls("update"):
        for step in getattr(get_argument(call, len(call.args), "rollback_steps"), "elts", ()):
            for method in find_strings(module, getattr(step, "elts", [step])[0]):
                yield method, module.place(call)


def test_rollback_steps_are_methods_of_node_driver():
    steps = list(find_rollback_steps())
    assert [step for step in steps if not callable(getattr(NodeDriver, step[0], None))] == []
    assert {"delete_disk", "commit_overlay", "thaw_guest"} <= {method for method, _ in steps}


@pytest.mark.parametrize("name", nodes.DRIVERS)
def test_drivers_implement_all_abstract_methods(name):
    driver = nodes.load_driver(name)
    assert issubclass(driver, NodeDriver)
    assert driver.__abstractmethods__ == frozenset()


def list_subclass_names(*classes):
    """Return the names of these classes and of all their subclasses."""
    pending, names = list(classes), set()
    while pending:
        names.add((current := pending.pop()).__name__)
        pending += current.__subclasses__()
    return names


MESSAGE_PACKAGES = "services", "workflows", "schemas", "auth", "ratelimit"
MESSAGE_MODULES = (*(f"panel.{name}" for name in MESSAGE_PACKAGES), "worker", "consoles")
"""The code below the web layer whose sentences appear on pages. Commands and answers of the APIs are English only."""
MACHINE_READABLE_FIELDS = {"reason", "status", "seconds", "extra", "field_name", "error_class"}


def find_message_modules():
    """Return the modules of MESSAGE_MODULES, without the image builders, whose errors appear in logs only."""
    modules = [module for module in product_modules() if module.name.startswith(MESSAGE_MODULES)]
    return [module for module in modules if not module.name.startswith("worker.images")]


def is_bare_sentence(node):
    """Return whether the node is text or formatted text outside of a `message(…)`."""
    if isinstance(node, ast.IfExp):
        return is_bare_sentence(node.body) or is_bare_sentence(node.orelse)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return isinstance(node.func.value, ast.Constant | ast.JoinedStr)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    return is_text or isinstance(node, ast.JoinedStr)


def test_error_and_stage_texts_are_messages():
    error_names = list_subclass_names(Problem, NodeError, ValidationError)
    bare = []
    for module in find_message_modules():
        for node in module.nodes:
            texts = []
            if isinstance(node, ast.Call) and called_name(node) in error_names:
                fields = [item.value for item in node.keywords if item.arg not in MACHINE_READABLE_FIELDS]
                texts = [*node.args[:1], *fields]
            elif isinstance(node, ast.Call) and called_name(node) in ("step", "step_exclusive"):
                texts = node.args[:1]
            elif isinstance(node, ast.keyword) and node.arg == "stage":
                texts = [node.value]
            elif isinstance(node, ast.FunctionDef) and node.name.endswith("_error"):
                texts = [line.value for line in ast.walk(node) if isinstance(line, ast.Return) and line.value]
            bare += [module.place(text) for text in texts if is_bare_sentence(text)]
    assert bare == []


def binds_underscore(node):
    """Return whether a node of Python code or of a template assigns to the name `_`."""
    if isinstance(node, jinja2.nodes.Name):
        return node.name == "_" and node.ctx != "load"
    if isinstance(node, ast.Name):
        return node.id == "_" and isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.arg) and node.arg == "_"


def imports_underscore(module):
    imports = (node for node in module.nodes if isinstance(node, ast.ImportFrom))
    return any(name.asname == "_" for node in imports for name in node.names)


def test_no_variable_shadows_gettext():
    """`_` is gettext in pages and templates, so it must not be used for an unused value."""
    modules = [module for module in product_modules() if imports_underscore(module)]
    assert len(modules) > 50
    hidden = [module.place(node) for module in modules for node in module.nodes if binds_underscore(node)]
    hidden += [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in parsed_templates()
        for node in tree.find_all(jinja2.nodes.Name)
        if binds_underscore(node)
    ]
    assert hidden == []


def test_variables_that_shadow_gettext_are_found():
    for source in ("a, _ = b", "[x for x, _ in y]", "lambda _: 1", "def f(*_): 1", "def f(**_): 1", "for _ in a: 1"):
        assert any(map(binds_underscore, ast.walk(ast.parse(source)))), source
    for source in ("{% set _ = x.append(1) %}", "{% for a, _ in b %}{% endfor %}", "{% macro m(_) %}{% endmacro %}"):
        assert any(map(binds_underscore, jinja2.Environment().parse(source).find_all(jinja2.nodes.Name))), source
    assert not any(map(binds_underscore, ast.walk(ast.parse("_('Save')"))))


GETTEXT_NAMES = {"_", "gettext", "lazy_gettext", "ngettext"}


def read_python_text_calls():
    """Yield (place, texts, parameters, function's name) for each call of gettext with literals in Python code."""
    for module in product_modules():
        for node in module.nodes:
            if not isinstance(node, ast.Call) or called_name(node) not in GETTEXT_NAMES:
                continue
            texts = node.args[: 2 if called_name(node) == "ngettext" else 1]
            if all(isinstance(text, ast.Constant) for text in texts):
                parameters = {item.arg for item in node.keywords}
                yield module.place(node), [text.value for text in texts], parameters, called_name(node)


def read_template_text_calls():
    """Yield the same for each call in a template. A block `trans` is a call with all of its variables."""
    for path, tree in parsed_templates():
        for node in tree.find_all(jinja2.nodes.Call):
            name = getattr(node.node, "name", None)
            texts = node.args[: 2 if name == "ngettext" else 1]
            if name in GETTEXT_NAMES and all(isinstance(text, jinja2.nodes.Const) for text in texts):
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                yield place, [text.value for text in texts], {item.key for item in node.kwargs}, name


def has_fitting_parameters(texts, parameters, name):
    """Return whether the parameters of a call of gettext are those of its texts, and percent signs are written `%%`."""
    parameters = parameters | {"num"} if name == "ngettext" else parameters
    fields = {field for text in texts for field in re.findall(r"%\((\w+)\)", text)} - {"num"}
    try:
        _filled = [text % dict.fromkeys(parameters, 1) for text in texts]
    except (KeyError, TypeError, ValueError):
        return False
    return fields == parameters - {"num"}


@pytest.mark.parametrize(("read_calls", "minimum"), [(read_python_text_calls, 500), (read_template_text_calls, 1000)])
def test_texts_have_parameters_of_their_placeholders(read_calls, minimum):
    calls = list(read_calls())
    assert len(calls) > minimum
    assert [place for place, *call in calls if not has_fitting_parameters(*call)] == []


@pytest.mark.parametrize(
    ("texts", "parameters", "name", "fits"),
    [
        (["Key %(name)s"], {"name"}, "_", True),
        (["Key %(name)s"], set(), "_", False),
        (["Key"], {"name"}, "_", False),
        (["5 %% of %(size)d"], {"size"}, "_", True),
        (["5 % off"], set(), "_", False),
        (["%(num)s key of %(name)s", "%(num)s keys of %(name)s"], {"name"}, "ngettext", True),
        (["One key", "%(num)s keys of %(name)s"], set(), "ngettext", False),
    ],
)
def test_wrong_text_parameters_are_found(texts, parameters, name, fits):
    assert has_fitting_parameters(texts, parameters, name) == fits


def find_message_calls():
    """Return (module, call) for each call of `message` and `plural_message` of panel.core.messages."""
    imports = {
        module.name
        for module in product_modules()
        for node in module.nodes
        if isinstance(node, ast.ImportFrom)
        and re.match("from panel.core(.messages)? import .*message", ast.unparse(node))
    }
    calls = [*find_calls("message"), *find_calls("plural_message")]
    return [(module, call) for module, call in calls if module.name in imports and module.name != "panel.core.messages"]


def test_message_templates_are_literals():
    """`make messages` reads the literals from the code."""
    calls = find_message_calls()
    assert len(calls) > 500
    literal = ast.Constant
    assert [
        module.place(call) for module, call in calls if not all(isinstance(text, literal) for text in call.args)
    ] == []


def test_messages_have_parameters_of_their_templates():
    """Messages without parameters are skipped: they may be templates that are formatted later."""
    wrong = []
    for module, call in find_message_calls():
        parameters = {item.arg for item in call.keywords}
        templates = [text.value for text in call.args]
        fields = {field for text in templates for _, field, _, _ in Formatter().parse(text) if field is not None}
        wrong += [module.place(call)] if parameters and fields != parameters else []
    assert wrong == []


def test_messages_are_in_catalog():
    with open(languages.TRANSLATIONS_FOLDER / "messages.pot", "rb") as file:
        catalog = read_po(file)
    catalog_texts = {text for entry in catalog for text in (entry.id if isinstance(entry.id, tuple) else (entry.id,))}
    templates = {text.value for _, call in find_message_calls() for text in call.args}
    assert templates - catalog_texts == set()


def test_models_package_exports_every_table():
    tables = {mapper.class_ for mapper in db.Model.registry.mappers}
    assert {model for model in tables if getattr(models, model.__name__, None) is not model} == set()


def test_attributes_of_rows_are_mapped():
    """Services set no attributes on rows: what a model declares for type checks only is a column or a relation."""
    mapped_names = {mapper.class_.__name__: set(mapper.attrs.keys()) for mapper in db.Model.registry.mappers}
    declarations = [
        (node.name, statement.target.id)
        for path in (ROOT / "panel" / "models").glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name in mapped_names
        for block in node.body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.AnnAssign)
    ]
    assert len(declarations) > 15
    assert [(model, name) for model, name in declarations if name not in mapped_names[model]] == []


def test_no_test_imports_another_test_or_a_conftest():
    modules = [
        (source.path, module)
        for source in parsed_tests()
        for node in source.nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in find_imported_modules(node)
    ]
    assert len(modules) > 1000
    assert [
        f"{path.relative_to(ROOT)}: {module}"
        for path, module in modules
        if module.startswith("tests.") and is_test_or_conftest(module.rpartition(".")[2])
    ] == []


def find_imported_modules(node):
    """Return what an import statement may import as modules."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]


def is_test_or_conftest(name):
    return name == "conftest" or name.startswith("test_")


@pytest.mark.parametrize(
    ("statement", "is_forbidden"),
    [
        ("from tests.volumes.test_api import PATH", True),
        ("from tests.volumes import test_api", True),
        ("import tests.volumes.conftest", True),
        ("from tests.support.volumes import volume", False),
    ],
)
def test_import_of_a_test_is_found(statement, is_forbidden):
    modules = find_imported_modules(ast.parse(statement).body[0])
    assert any(is_test_or_conftest(module.rpartition(".")[2]) for module in modules) is is_forbidden

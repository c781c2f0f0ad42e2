"""The texts of pages are given the parameters that they name: a missing one is an error 500."""

import ast
import re

import pytest
from jinja2 import Environment, nodes

from panel.core.config import ROOT
from tests.support.product_code import called_name, find_calls

TRANSLATING_FUNCTIONS = ("_", "gettext", "lazy_gettext", "ngettext")
PARAMETER_PATTERN = re.compile(r"%\((\w+)\)")
NUMBER = "num"
"""What `ngettext` itself adds."""
TEMPLATE_PATHS = sorted((ROOT / "templates").rglob("*.*"))
ENVIRONMENT = Environment(extensions=["jinja2.ext.i18n"])
ENVIRONMENT.newstyle_gettext = True  # as in the panel: the parameters of {% trans %} become those of the call


def has_wrong_parameters(function, texts, given):
    """Return whether the texts of a call name other parameters than it gives."""
    named = {name for text in texts if isinstance(text, str) for name in PARAMETER_PATTERN.findall(text)}
    implied = {NUMBER} if function == "ngettext" else set()
    return named - implied != set(given) - implied


def find_wrong_calls(source):
    """Return the texts of the calls in a template that have wrong parameters."""
    wrong = []
    for call in ENVIRONMENT.parse(source).find_all(nodes.Call):
        function, texts = (
            getattr(call.node, "name", ""),
            [text.value for text in call.args if isinstance(text, nodes.Const)],
        )
        if function in TRANSLATING_FUNCTIONS and has_wrong_parameters(
            function, texts, [item.key for item in call.kwargs]
        ):
            wrong.append(texts)
    return wrong


def test_texts_in_code_have_their_parameters():
    calls = [found for name in TRANSLATING_FUNCTIONS for found in find_calls(name)]
    assert len(calls) > 300
    wrong = []
    for module, call in calls:
        texts = [text.value for text in call.args if isinstance(text, ast.Constant)]
        if has_wrong_parameters(called_name(call), texts, [item.arg for item in call.keywords]):
            wrong.append(module.place(call))
    assert wrong == []


@pytest.mark.parametrize("path", TEMPLATE_PATHS, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_texts_in_templates_have_their_parameters(path):
    assert find_wrong_calls(path.read_text()) == []


def test_wrong_parameters_are_found():
    source = """{{ _("Key %(name)s", name=x) }}{{ _("Plan %(name)s") }}{{ _("Disk", name=x) }}
    {{ ngettext("%(num)s of %(all)s", "%(num)s of %(all)s", 2, all=3) }}{{ ngettext("%(num)s", "%(num)s %(all)s", 2) }}
    {% trans name=x %}By {{ name }}{% endtrans %}
    {% trans count=x | length %}One disk{% pluralize %}{{ count }} disks{% endtrans %}"""
    assert [texts[0] for texts in find_wrong_calls(source)] == ["Plan %(name)s", "Disk", "%(num)s"]

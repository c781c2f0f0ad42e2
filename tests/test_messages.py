"""Messages: text with a template and parameters, in memory, in rows and in another language."""

import ast
import copy
import json
from gettext import NullTranslations
from pathlib import Path

import orjson
import pytest
from marshmallow import ValidationError, validate
from sqlalchemy import select, text

from panel.core import messages
from panel.core.db import session
from panel.core.messages import Message, message, plural_message
from panel.models import Task, TaskLog

ROOT = Path(messages.__file__).parents[2]
GREETING = "The plan {plan} has {count} disks."


class PseudoTranslations(NullTranslations):
    """A language in which every template is in brackets."""

    def gettext(self, template):
        return f"[{template}]"

    def ngettext(self, singular, plural, count):
        return f"[{singular if count == 1 else plural}]"


def test_message_equals_its_english_text():
    greeting = message(GREETING, plan="S", count=2)
    assert greeting == "The plan S has 2 disks."
    assert (greeting.template, greeting.parameters) == (GREETING, {"plan": "S", "count": 2})
    assert json.dumps([greeting]) == '["The plan S has 2 disks."]'
    assert orjson.dumps([greeting]) == b'["The plan S has 2 disks."]'
    assert copy.deepcopy(greeting).parameters == greeting.parameters


def test_message_without_parameters_may_contain_braces():
    assert message("Write {name}.") == "Write {name}."
    assert messages.translate_with(message("Write {name}."), PseudoTranslations()) == "[Write {name}.]"


def test_message_converts_other_parameters_to_text():
    assert message("{path}", path=["a"]).parameters == {"path": "['a']"}


def test_marshmallow_formats_error_texts_as_messages():
    validator = validate.Length(max=3, error=message("At most {max} characters."))
    with pytest.raises(ValidationError) as raised:
        validator("four")
    [error] = raised.value.messages
    assert (error, error.template, error.parameters) == (
        "At most 3 characters.",
        "At most {max} characters.",
        {"max": 3},
    )


def test_formatted_message_keeps_its_own_parameters():
    error = message("The {thing} has at most {max} characters.", thing=message("name"))
    with pytest.raises(ValidationError) as raised:
        validate.Length(max=3, error=error)("four")
    [error] = raised.value.messages
    assert error == "The name has at most 3 characters."
    assert messages.translate_with(error, PseudoTranslations()) == "[The [name] has at most 3 characters.]"
    with pytest.raises(ValidationError) as raised:
        validate.Length(max=3, error=plural_message("{count} of {max}", "{count}s of {max}", count=2))("four")
    assert raised.value.messages == ["2s of 3"]


def test_messages_of_the_code_have_their_parameters():
    """Only texts that marshmallow formats get parameters later."""
    wrong = []
    for path in [path for folder in ("panel", "worker", "consoles") for path in (ROOT / folder).rglob("*.py")]:
        tree = ast.parse(path.read_text())
        later = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "error"}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "message" and node.args):
                continue
            names = {keyword.arg for keyword in node.keywords}
            template = getattr(node.args[0], "value", None)
            if names and None not in names and isinstance(template, str) and id(node) not in later:
                wrong += [f"{path}:{node.lineno}"] if set(messages.list_field_names(template)) != names else []
    assert wrong == []


def test_translation_includes_nested_messages():
    reason = message("The node {node} is full.", node="n-1")
    outer = message("It cannot move: {reason}", reason=reason)
    assert outer == "It cannot move: The node n-1 is full."
    assert messages.translate_with(outer, PseudoTranslations()) == "[It cannot move: [The node n-1 is full.]]"


def test_translation_does_not_change_plain_text():
    assert messages.translate_with("Shop {front}", PseudoTranslations()) == "Shop {front}"
    assert messages.translate_with(message(""), PseudoTranslations()) == ""


@pytest.mark.parametrize(("count", "expected"), [(1, "1 disk"), (2, "2 disks")])
def test_plural_message_depends_on_count(count, expected):
    disks = plural_message("{count} disk", "{count} disks", count=count)
    assert disks == expected
    assert messages.translate_with(disks, PseudoTranslations()) == f"[{expected}]"
    assert (
        messages.translate_with(messages.from_stored(messages.to_stored(disks)), PseudoTranslations())
        == f"[{expected}]"
    )


@pytest.mark.parametrize(
    "sentence",
    [
        message("Done"),
        message("Write {name}."),
        message(GREETING, plan="S", count=2),
        message("It cannot move: {reason}", reason=message("It is full.")),
        message("It cannot move: {reason}", reason=message("{name} is full.", name="{x}")),
        message('{"message": 1}'),
    ],
)
def test_stored_message_is_restored(sentence):
    stored = messages.from_stored(messages.to_stored(sentence))
    assert stored == sentence
    if not sentence.startswith(messages.STORED_PREFIX):
        assert messages.translate_with(stored, PseudoTranslations()) == messages.translate_with(
            sentence, PseudoTranslations()
        )


@pytest.mark.parametrize(
    "foreign", ['{"message":', '{"message":1}', '{"message":"{x}","parameters":{"y":1}}', "{}", ""]
)
def test_message_column_reads_plain_text_unchanged(foreign):
    assert messages.from_stored(foreign) == foreign


def test_message_columns_keep_template_and_parameters(cast):
    task = Task(
        kind="instance_start", resource_type="instance", resource_id="x", error=message(GREETING, plan="S", count=2)
    )
    task.logs = [TaskLog(message=message("Done")), TaskLog(message="Text of libvirt")]
    session.add(task)
    session.flush()
    session.expire_all()
    assert (task.error.template, task.error.parameters) == (GREETING, {"count": 2, "plan": "S"})
    assert [(type(line.message), str(line.message)) for line in task.logs] == [
        (Message, "Done"),
        (Message, "Text of libvirt"),
    ]
    assert session.scalar(select(Task.id).where(Task.error == message(GREETING, plan="S", count=2))) == task.id
    raw = session.execute(text("select error from tasks where id = :id"), {"id": task.id}).scalar()
    assert orjson.loads(raw) == {"message": GREETING, "parameters": {"count": 2, "plan": "S"}}

"""The catalog of container apps: one compose file each, with a mapping `x-app` that describes the app.

The files are validated once, when this module is imported. A new app is a new file, nothing else.
"""

import re
import secrets
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from marshmallow import Schema, fields, post_load, validate

from panel.core.errors import Invalid, NotFound
from panel.core.messages import Message, message
from panel.services.docker_apps.ports import Port, parse_ports, remap_ports

__all__ = ["App", "Variable", "compose", "get", "listing", "remap_ports"]

VARIABLE_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""Names that a variable may have."""
GENERATED_VALUE_ALPHABET = string.ascii_letters + string.digits
MAX_VALUE_LENGTH = 4096
"""Maximum length of a value, in characters."""


SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C, if PyYAML has it: every web process and worker reads the catalog when it starts."""


@dataclass(frozen=True)
class Variable:
    """A variable of an app. `generate` is the length of the random value that is used when none is given."""

    name: str
    label: str
    description: str
    required: bool
    secret: bool
    default: str | None
    generate: int | None


@dataclass(frozen=True)
class App:
    slug: str
    name: str
    description: str
    category: str
    website: str
    min_memory_mb: int
    variables: tuple[Variable, ...]
    service: str
    """The service whose ports are mapped."""
    ports: tuple[Port, ...]
    """The ports that it publishes by default."""
    images: tuple[str, ...]
    template: str
    """The compose file without `x-app`."""


class MessageField(fields.String):
    """A text for people, which `make messages` extracts from the file."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Message:
        return Message(super()._deserialize(value, attr, data, **kwargs))


class VariableFile(Schema):
    name = fields.String(required=True, validate=validate.Regexp(VARIABLE_NAME_PATTERN))
    label = MessageField(required=True)
    description = MessageField(required=True)
    required = fields.Boolean(load_default=False)
    secret = fields.Boolean(load_default=False)
    default = fields.String(load_default=None)
    generate = fields.Integer(load_default=None, strict=True, validate=validate.Range(16, 64))

    @post_load
    def build_variable(self, values: dict[str, Any], **_: Any) -> Variable:
        return Variable(**values)


class AppFile(Schema):
    name = fields.String(required=True)
    description = MessageField(required=True)
    category = MessageField(required=True)
    website = fields.Url(required=True, schemes={"https"})
    min_memory_mb = fields.Integer(required=True, strict=True, validate=validate.Range(64, 65536))
    service = fields.String(required=True)
    variables = fields.Nested(VariableFile, many=True, load_default=list)


def load_app(path: Path) -> App:
    content = yaml.load(path.read_text(), Loader=SafeLoader)
    values = AppFile().load(content.pop("x-app"))
    services = content["services"]
    return App(
        **values | {"variables": tuple(values["variables"])},
        slug=path.stem,
        ports=parse_ports(services[values["service"]].get("ports", ())),
        images=tuple(service["image"] for service in services.values()),
        template=yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120),
    )


DOCKER_APPS = {path.stem: load_app(path) for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def listing() -> list[App]:
    """Return all apps, by name."""
    return sorted(DOCKER_APPS.values(), key=lambda app: app.name.lower())


def get(slug: str) -> App:
    """Return the app. Raise NotFound when the catalog does not have it."""
    if slug not in DOCKER_APPS:
        raise NotFound(message("The catalog has no such app."))
    return DOCKER_APPS[slug]


def render_compose_file(
    app: App, environment: dict[str, str], port_mappings: list[dict[str, Any]]
) -> tuple[str, dict[str, str]]:
    """Return the compose file and the value of every variable: as given, else its default, else generated. Store the
    values, because another call generates different ones. `port_mappings` as for `remap_ports`. Raise Invalid, naming
    `env_variables` or `port_mappings`."""
    return remap_ports(app.template, port_mappings, app.service), complete_values(app, environment or {})


def complete_values(app: App, given_values: dict[str, str]) -> dict[str, str]:
    """Return the values of all variables of the app. Raise Invalid for unknown or missing ones."""
    validate_variables(given_values)
    declared = {variable.name for variable in app.variables}
    if unknown := sorted(given_values.keys() - declared):
        known_names = ", ".join(variable.name for variable in app.variables) or "none"
        raise Invalid(
            message("The app has no such variable."),
            env_variables=message("Unknown: {unknown}. Known: {known}.", unknown=", ".join(unknown), known=known_names),
        )
    values = {
        variable.name: given_values.get(variable.name) or compute_default_value(variable) for variable in app.variables
    }
    if missing := [variable for variable in app.variables if variable.required and not values[variable.name]]:
        sentences = [
            message("{name} ({label}) is needed.", name=variable.name, label=variable.label) for variable in missing
        ]
        raise Invalid(message("Some variables of the app are missing."), env_variables=sentences)
    return values


def compute_default_value(variable: Variable) -> str:
    """Return the default, a generated value, or an empty string."""
    if variable.default is None and variable.generate:
        return "".join(secrets.choice(GENERATED_VALUE_ALPHABET) for _ in range(variable.generate))
    return variable.default or ""


def validate_variables(environment: dict[Any, Any]) -> dict[str, str]:
    """Return the variables if all have valid names and one-line values. Raise Invalid otherwise."""
    errors = []
    for name, value in environment.items():
        if not isinstance(name, str) or not VARIABLE_NAME_PATTERN.fullmatch(name):
            errors.append(
                message(
                    "{name}: a name has letters, digits and _, and does not begin with a digit.", name=str(name)[:80]
                )
            )
        elif not isinstance(value, str) or len(value) > MAX_VALUE_LENGTH or not is_printable(value):
            errors.append(
                message(
                    "{name}: must be a line of text of at most {maximum} characters.",
                    name=name,
                    maximum=MAX_VALUE_LENGTH,
                )
            )
    if errors:
        raise Invalid(message("Some variables are not valid."), env_variables=errors)
    return environment


def is_printable(value: str) -> bool:
    """Return whether the text is one line without control characters."""
    return not re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", value)

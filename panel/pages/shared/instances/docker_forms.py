"""The forms that deploy container apps: one for each app of the catalog, one for a compose file."""

import re

from marshmallow import ValidationError

from panel.schemas.base import In, Int, Text
from panel.schemas.docker_deployments import DeployComposeIn
from panel.web.translation import lazy_gettext

PORT_PATTERN = re.compile(r"(\d{1,5}):(\d{1,5})(?:/(tcp|udp))?")
PORT_HINT = lazy_gettext("Use the form 8080:80 or 5353:53/udp, host port first.")
ASSIGNMENT_HINT = lazy_gettext("Use the form NAME=value.")


class PortsField(Text):
    """Lines such as `8080:80/tcp`, deserialized to the API's port mappings."""

    def _deserialize(self, value, attr, data, **kwargs):
        result = []
        for line in super()._deserialize(value, attr, data, **kwargs).split("\n"):
            if entry := line.strip():
                port = PORT_PATTERN.fullmatch(entry)
                if port is None:
                    raise ValidationError(PORT_HINT)
                outer, inner, protocol = port.groups()
                result.append({"container_port": int(inner), "host_port": int(outer), "protocol": protocol or "tcp"})
        return DeployComposeIn().fields["port_mappings"].deserialize(result)


class VariablesField(Text):
    """Lines such as `NAME=value`, deserialized to the API's variables."""

    def _deserialize(self, value, attr, data, **kwargs):
        result = {}
        for line in super()._deserialize(value, attr, data, **kwargs).split("\n"):
            if line.strip():
                name, sign, text = line.strip().partition("=")
                if not sign:
                    raise ValidationError(ASSIGNMENT_HINT)
                result[name.strip()] = text
        return DeployComposeIn().fields["env_variables"].deserialize(result)


class ComposeForm(In):
    app_name = Text(minimum=1, maximum=64, required=True)
    compose_url = Text(minimum=1, maximum=2048, required=True)
    env_variables = VariablesField(maximum=65536, lines=True)
    port_mappings = PortsField(maximum=2048, lines=True)


def app_schema(app):
    """Return a schema with a field for each variable and each port of the app."""
    declared = {
        f"variable_{variable.name}": Text(maximum=4096, required=variable.required) for variable in app.variables
    }
    declared |= {f"port_{number}": Int(1, 65535, required=True) for number, _ in enumerate(app.ports)}
    return type("AppForm", (In,), declared)


def get_initial_values(app):
    """Return the initial values of an app's form."""
    values = {f"variable_{variable.name}": variable.default for variable in app.variables if variable.default}
    return values | {f"port_{number}": port.host_port for number, port in enumerate(app.ports)}


def build_deploy_arguments(app, data):
    """Return the form's data as arguments of the API. Unchanged ports are left out."""
    variables = {
        variable.name: data[f"variable_{variable.name}"]
        for variable in app.variables
        if f"variable_{variable.name}" in data
    }
    ports = [
        {"container_port": port.container_port, "host_port": data[f"port_{number}"], "protocol": port.protocol}
        for number, port in enumerate(app.ports)
    ]
    is_unchanged = [port["host_port"] for port in ports] == [port.host_port for port in app.ports]
    return {"app_slug": app.slug, "env_variables": variables, "port_mappings": [] if is_unchanged else ports}

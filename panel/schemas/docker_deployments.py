"""Container apps in guests in the API, with the field names of the public clients."""

from marshmallow import ValidationError, fields, validate

from panel.core.messages import message
from panel.schemas.base import In, Int, Name, Out, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
DEPLOYMENT_STATUSES = ("pending", "deploying", "running", "stopped", "error", "failed")
PORT_PROTOCOLS = ("tcp", "udp")
MAX_VARIABLES, MAX_PORT_MAPPINGS = 64, 32
VARIABLE_NAME_RULE = validate.Regexp(
    r"\A[A-Za-z_][A-Za-z0-9_]{0,127}\Z",
    error=message("Must be letters, digits and underscores, and not begin with a digit."),
)
EXAMPLE_COMPOSE_URL = "https://example.com/shop/compose.yaml"


class Value(Text):
    """The value of a variable: one line. Numbers and booleans are converted to text."""

    def _deserialize(self, value, attr, data, **kwargs):
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, int | float):
            value = str(value)
        return super()._deserialize(value, attr, data, **kwargs)


class PortIn(In):
    container_port = Int(1, 65535, required=True, **describe("The port inside the container.", 80))
    host_port = Int(1, 65535, required=True, **describe("The port of the machine that leads there.", 8080))
    protocol = fields.String(
        load_default="tcp", validate=validate.OneOf(PORT_PROTOCOLS), **describe("`tcp` or `udp`.", "tcp")
    )


def validate_unique_ports(mappings):
    """Refuse mappings of two containers to the same port of the machine."""
    outer = [(mapping["host_port"], mapping["protocol"]) for mapping in mappings]
    if len(set(outer)) < len(outer):
        raise ValidationError(message("The same port of the instance is named twice."))


class Deploying(In):
    env_variables = fields.Dict(
        keys=fields.String(validate=VARIABLE_NAME_RULE),
        values=Value(maximum=4096),
        allow_none=True,
        validate=validate.Length(max=MAX_VARIABLES),
        **describe("Variables by name. They are kept encrypted and never shown.", {"MYSQL_DATABASE": "shop"}),
    )
    port_mappings = fields.List(
        fields.Nested(PortIn),
        allow_none=True,
        validate=[validate.Length(max=MAX_PORT_MAPPINGS), validate_unique_ports],
        **describe("Ports of the machine in place of those that the app comes with."),
    )


class DeployAppIn(Deploying):
    app_slug = Text(
        maximum=64,
        required=True,
        **describe("Which app of the catalog: see `GET /api/instance/{id}/docker/apps`.", "nginx"),
    )


class DeployComposeIn(Deploying):
    app_name = Name(maximum=64, required=True, **describe("What people call it.", "Shop"))
    compose_url = Text(
        minimum=1,
        maximum=2048,
        required=True,
        **describe(
            "Where its compose file is, `https://…`. The panel fetches it, also at each retry.", EXAMPLE_COMPOSE_URL
        ),
    )


class PortOut(Out):
    container_port = fields.Integer(**describe("The port inside the container.", 80))
    host_port = fields.Integer(**describe("The port of the machine that leads there.", 8080))
    protocol = fields.String(**describe("`tcp` or `udp`.", "tcp"))


class DockerDeploymentOut(Out):
    id = fields.String(**describe("Deployment id.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The instance that it runs in.", EXAMPLE_ID))
    app_slug = fields.String(**describe("Which app of the catalog; `custom` for a compose file of your own.", "nginx"))
    app_name = fields.String(**describe("What people call it.", "nginx"))
    project_name = fields.String(**describe("What Docker calls its project in the guest.", "nginx-1a2b3c4d"))
    status = fields.String(
        validate=validate.OneOf(DEPLOYMENT_STATUSES),
        **describe(
            "`pending` and `deploying` until it was deployed, or `failed` when that did not work; then `running`,"
            " `stopped`, or `error` when a container does not do well.",
            "running",
        ),
    )
    error_message = fields.String(allow_none=True, **describe("Why it failed, or what is wrong with it.", None))
    deployed_at = Time(allow_none=True, **describe("When it first ran.", EXAMPLE_TIME))
    checked_at = Time(allow_none=True, **describe("When somebody last looked at it in the guest.", EXAMPLE_TIME))
    port_mappings = fields.List(
        fields.Raw(), attribute="ports", **describe("At which ports of the machine it can be reached.")
    )
    metadata = fields.Dict(
        attribute="details",
        **describe("`compose_url` of a compose file of your own.", {"compose_url": EXAMPLE_COMPOSE_URL}),
    )
    task_id = fields.String(allow_none=True, **describe("The latest task that works, or worked, on it.", EXAMPLE_ID))
    created_at = Time(**describe("When it was asked for.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))


class DockerLogsOut(Out):
    logs = fields.String(**describe("The last lines of its containers, each with its time.", "web-1  | ready\n"))
    logs_at = Time(
        allow_none=True, **describe("When they were read in the guest; null when nobody did yet.", EXAMPLE_TIME)
    )
    logs_error = fields.String(
        allow_none=True, **describe("Why they could not be read anew; these are older ones.", None)
    )


class VariableOut(Out):
    name = fields.String(**describe("Its name in `env_variables`.", "MYSQL_DATABASE"))
    label = fields.String(**describe("What people call it.", "Database"))
    description = fields.String(**describe("What it is for.", "The database that is made at the first start."))
    required = fields.Boolean(**describe("Whether it has to be given.", False))
    sensitive = fields.Boolean(
        attribute="secret",
        **describe("Whether it is a password or the like. One is made up when none is given.", False),
    )
    default = fields.String(allow_none=True, **describe("What it is when it is not given.", "shop"))


class DockerAppOut(Out):
    slug = fields.String(**describe("Its name in `app_slug`.", "nginx"))
    name = fields.String(**describe("What people call it.", "nginx"))
    description = fields.String(**describe("What it does.", "A web server."))
    category = fields.String(**describe("What kind of app it is.", "Web"))
    website = fields.String(**describe("Where its makers tell more.", "https://nginx.org"))
    min_memory_mb = fields.Integer(**describe("How much memory the machine should have, MiB.", 256))
    ports = fields.List(fields.Raw(), **describe("Which ports of the machine it takes when none are chosen."))
    variables = fields.List(fields.Nested(VariableOut), **describe("What can be set when it is deployed."))

"""Container apps of guests in the API, with the field names of the public clients."""

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
    container_port = Int(1, 65535, required=True, **describe("Port inside the container.", 80))
    host_port = Int(1, 65535, required=True, **describe("Port on the instance.", 8080))
    protocol = fields.String(
        load_default="tcp", validate=validate.OneOf(PORT_PROTOCOLS), **describe("`tcp` or `udp`.", "tcp")
    )


def validate_unique_ports(mappings):
    """Refuse mappings of two containers to the same port of the machine."""
    outer = [(mapping["host_port"], mapping["protocol"]) for mapping in mappings]
    if len(set(outer)) < len(outer):
        raise ValidationError(message("Duplicate port of the instance."))


class Deploying(In):
    env_variables = fields.Dict(
        keys=fields.String(validate=VARIABLE_NAME_RULE),
        values=Value(maximum=4096),
        allow_none=True,
        validate=validate.Length(max=MAX_VARIABLES),
        **describe("Variables by name. They are stored encrypted and never returned.", {"MYSQL_DATABASE": "shop"}),
    )
    port_mappings = fields.List(
        fields.Nested(PortIn),
        allow_none=True,
        validate=[validate.Length(max=MAX_PORT_MAPPINGS), validate_unique_ports],
        **describe("Port mappings instead of the app's default ones."),
    )


class DeployAppIn(Deploying):
    app_slug = Text(
        maximum=64,
        required=True,
        **describe("App of the catalog: see `GET /api/instance/{id}/docker/apps`.", "nginx"),
    )


class DeployComposeIn(Deploying):
    app_name = Name(maximum=64, required=True, **describe("Display name.", "Shop"))
    compose_url = Text(
        minimum=1,
        maximum=2048,
        required=True,
        **describe("https URL of the compose file. The panel downloads it, again for each retry.", EXAMPLE_COMPOSE_URL),
    )


class PortOut(Out):
    container_port = fields.Integer(**describe("Port inside the container.", 80))
    host_port = fields.Integer(**describe("Port on the instance.", 8080))
    protocol = fields.String(**describe("`tcp` or `udp`.", "tcp"))


class DockerDeploymentOut(Out):
    id = fields.String(**describe("Deployment id.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The instance.", EXAMPLE_ID))
    app_slug = fields.String(**describe("App of the catalog; `custom` for a compose file.", "nginx"))
    app_name = fields.String(**describe("Display name.", "nginx"))
    project_name = fields.String(**describe("Name of the compose project in the guest.", "nginx-1a2b3c4d"))
    status = fields.String(
        validate=validate.OneOf(DEPLOYMENT_STATUSES),
        **describe(
            "`pending` and `deploying` during the deployment, `failed` if it failed; then `running`,"
            " `stopped`, or `error` if a container has a problem.",
            "running",
        ),
    )
    error_message = fields.String(allow_none=True, **describe("Error message of the deployment or the app.", None))
    deployed_at = Time(allow_none=True, **describe("When it was first running.", EXAMPLE_TIME))
    checked_at = Time(allow_none=True, **describe("When its state was last checked in the guest.", EXAMPLE_TIME))
    port_mappings = fields.List(
        fields.Raw(), attribute="ports", **describe("Ports of the instance on which it can be reached.")
    )
    metadata = fields.Dict(
        attribute="details",
        **describe("`compose_url` for a custom compose file.", {"compose_url": EXAMPLE_COMPOSE_URL}),
    )
    task_id = fields.String(allow_none=True, **describe("The latest task for this app.", EXAMPLE_ID))
    created_at = Time(**describe("When it was requested.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))


class DockerLogsOut(Out):
    logs = fields.String(**describe("Last log lines of its containers, with timestamps.", "web-1  | ready\n"))
    logs_at = Time(allow_none=True, **describe("When the logs were read in the guest; null if never.", EXAMPLE_TIME))
    logs_error = fields.String(
        allow_none=True, **describe("Why reading failed the last time; `logs` then has the stored logs.", None)
    )


class VariableOut(Out):
    name = fields.String(**describe("Name in `env_variables`.", "MYSQL_DATABASE"))
    label = fields.String(**describe("Display name.", "Database"))
    description = fields.String(**describe("Description.", "The database that is created at the first start."))
    required = fields.Boolean(**describe("Whether a value is required.", False))
    sensitive = fields.Boolean(
        attribute="secret",
        **describe("Whether it is a secret. Without a value, one is generated.", False),
    )
    default = fields.String(allow_none=True, **describe("Default value.", "shop"))


class DockerAppOut(Out):
    slug = fields.String(**describe("Name in `app_slug`.", "nginx"))
    name = fields.String(**describe("Display name.", "nginx"))
    description = fields.String(**describe("Description.", "A web server."))
    category = fields.String(**describe("Category.", "Web"))
    website = fields.String(**describe("Website of the project.", "https://nginx.org"))
    min_memory_mb = fields.Integer(**describe("Recommended memory of the instance in MiB.", 256))
    ports = fields.List(fields.Raw(), **describe("Default ports on the instance."))
    variables = fields.List(fields.Nested(VariableOut), **describe("Variables for the deployment."))

"""Images of micro VMs in the API: building, showing and changing them."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Int, Name, Number, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.microvms import (
    EXAMPLE_ID,
    EXAMPLE_TIME,
    IMAGE_STATUSES,
    EnvironmentVariables,
    MicrovmImageOut,
)

MAX_COMMANDS, MAX_COMMAND_CHARACTERS = 50, 4096
MAX_NAME_CHARACTERS = 64
MAX_ALIASES = 10
NAME_PATTERN = r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?"
EXAMPLE_COMMANDS = ["pip install flask", "mkdir -p /srv/app"]


def name_field(description="A short name, unique in the account. SDKs choose the image by it.", **options):
    rule = validate.Regexp(rf"{NAME_PATTERN}\Z", error="Use lower-case letters, digits, dots, hyphens and underscores.")
    return Text(minimum=1, maximum=MAX_NAME_CHARACTERS, rules=[rule], **options, **describe(description, "web-app"))


def label_field(**options):
    return Name(maximum=100, **options, **describe("What people call it; else the name.", "Web app"))


class MicrovmImageBuildOut(Out):
    source_id = fields.String(allow_none=True, **describe("The image that it is built from.", EXAMPLE_ID))
    source_name = fields.String(allow_none=True, **describe("The name of that image.", "sandbox"))
    commands = fields.List(fields.String(), **describe("What is executed, in this order.", EXAMPLE_COMMANDS))
    log = fields.String(**describe("The end of what the commands wrote.", "$ pip install flask\n"))
    command_number = fields.Integer(
        allow_none=True, **describe("The command, from 1, that is being executed or that failed.", 1)
    )
    exit_code = fields.Integer(allow_none=True, **describe("The exit code of the command that failed.", None))
    error = fields.String(allow_none=True, **describe("Why the build failed.", None))
    task_id = fields.String(allow_none=True, **describe("The task that builds it.", EXAMPLE_ID))
    started_at = Time(**describe("When the build was requested.", EXAMPLE_TIME))
    ended_at = Time(allow_none=True, **describe("When it ended; null until then.", EXAMPLE_TIME))


class MicrovmImageIn(In):
    name = name_field(required=True)
    label = label_field(load_default=None, allow_none=True)
    image_id = Text(maximum=36, required=True, **describe("The image to start from.", EXAMPLE_ID))
    commands = fields.List(
        Text(minimum=1, maximum=MAX_COMMAND_CHARACTERS, lines=True),
        required=True,
        validate=validate.Length(1, MAX_COMMANDS),
        **describe("What is executed, in this order, by root with bash. Everybody who may see it can read it.",
                   EXAMPLE_COMMANDS),
    )  # fmt: skip
    envs = EnvironmentVariables(
        load_default=None,
        allow_none=True,
        **describe(
            "Environment variables of the commands, and of the processes in micro VMs of the image. They are stored "
            "encrypted and not shown.",
            {"MODE": "test"},
        ),
    )
    cpu_cores = Int(1, 8, load_default=None, allow_none=True, **describe("Processor cores; else the source's.", 1))
    memory_mb = Int(
        128, 16384, load_default=None, allow_none=True, **describe("MiB of memory; else the source's.", 512)
    )
    disk_gb = Int(
        1, 64, load_default=None, allow_none=True, **describe("GiB of disk, also the smallest; else the source's.", 2)
    )
    location_id = Text(
        maximum=36, load_default=None, allow_none=True, **describe("Where to build it; else any location.", EXAMPLE_ID)
    )


class MicrovmImagePatch(Patch):
    name = name_field()
    label = label_field()
    cpu_cores = Int(1, 8, **describe("Processor cores of a micro VM that asks for none.", 1))
    memory_mb = Int(128, 16384, **describe("MiB of memory of a micro VM that asks for none.", 512))
    disk_gb = Int(1, 64, **describe("GiB of disk of a micro VM that asks for none.", 2))


def aliases_field(**options):
    return fields.List(
        name_field("A further name."),
        validate=validate.Length(max=MAX_ALIASES),
        **options,
        **describe("Further names, unique on the platform. SDKs that name no template choose `base`.", ["base"]),
    )


def price_field(**options):
    return Number(
        0, 10**7, **options, **describe("A month of a micro VM, in the installation's currency; 0: it is free.", 2.5)
    )


def is_public_field(**options):
    return Bool(**options, **describe("Whether all customers may use it.", True))


class AdminMicrovmImageIn(MicrovmImageIn):
    aliases = aliases_field(load_default=())
    price = price_field(load_default=None, allow_none=True)
    is_public = is_public_field(load_default=True)


class AdminMicrovmImagePatch(MicrovmImagePatch):
    aliases = aliases_field()
    price = price_field()
    is_public = is_public_field()


class AdminMicrovmImageOut(MicrovmImageOut):
    is_public = fields.Boolean(
        attribute="is_for_everybody",
        **describe(
            "Whether all customers may use it; false for a customer's image, which only its account uses.", True
        ),
    )
    account_id = fields.String(allow_none=True, **describe("The owner; null for the platform's.", None))
    owner_email = fields.String(allow_none=True, **describe("The owner's email address.", None))


class AdminMicrovmImageDetailOut(AdminMicrovmImageOut):
    build = fields.Nested(
        MicrovmImageBuildOut, allow_none=True, **describe("Its latest build; null when it was not built by the panel.")
    )


class AdminMicrovmImageQuery(PageQuery):
    search = Text(maximum=255, **describe("Part of the name.", "sandbox"))
    status = fields.String(validate=validate.OneOf(IMAGE_STATUSES), **describe("Only images in this status.", "failed"))
    owner = fields.String(
        validate=validate.OneOf(("platform", "customers")),
        **describe("Only the platform's images, or only customers'.", "platform"),
    )

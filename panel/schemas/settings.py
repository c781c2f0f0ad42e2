"""Settings of the whole platform: names, types and defaults in one place."""

import ipaddress

from marshmallow import ValidationError, fields, pre_load, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Int, Number, Out, Patch, Text, describe


class Networks(Text):
    """Comma-separated addresses and networks; empty for all."""

    def _deserialize(self, value, attr, data, **kwargs):
        entries = [entry.strip() for entry in super()._deserialize(value, attr, data, **kwargs).split(",")]
        for entry in filter(None, entries):
            if not is_network(entry):
                raise ValidationError(
                    message("{entry} is neither an IP address nor a network in CIDR notation.", entry=entry[:50])
                )
        return ",".join(filter(None, entries))


def is_network(entry):
    """Return whether the text is an address or a network like 192.0.2.0/24, without zone and without host bits."""
    address, slash, bits = entry.partition("/")
    try:
        ipaddress.ip_network(entry)
    except ValueError:
        return False
    return "%" not in address and (not slash or (bits.isascii() and bits.isdigit()))


def rate_field(subject, default):
    return Int(1, 10**6, load_default=default, **describe(f"{subject} per minute.", default))


def validate_contact(text):
    if text:
        validate.Email(error=message("Must be an email address."))(text)


class SystemSettings(In):
    """All settings with their defaults. A new one also needs its place on the page, panel.pages.admin.settings."""

    vnc_allowed_sources = Networks(
        maximum=4000,
        load_default="",
        **describe(
            "Comma-separated addresses and networks that can open consoles. Empty: all.", "192.0.2.0/24,2001:db8::/32"
        ),
    )
    consoles_per_account = Int(1, 1000, load_default=20, **describe("Maximum number of open consoles per account.", 20))
    consoles_per_node = Int(
        1, 10000, load_default=200, **describe("Maximum number of open consoles per hypervisor.", 200)
    )
    console_idle_minutes = Int(
        1, 1440, load_default=30, **describe("Minutes after which an idle console is closed.", 30)
    )
    console_longest_hours = Int(1, 168, load_default=8, **describe("Hours after which every console is closed.", 8))
    require_second_factor = fields.String(
        validate=validate.OneOf(["nobody", "operators", "everybody"]),
        load_default="nobody",
        **describe("Who must sign in with a second factor: `nobody`, `operators` or `everybody`.", "operators"),
    )
    impersonation_expires_in = Int(
        60, 3600, load_default=3600, **describe("Default lifetime of an impersonation in seconds.", 3600)
    )
    backup_tasks_per_hypervisor = Int(
        1,
        64,
        load_default=2,
        **describe("Maximum number of backups and restores that run on a hypervisor at the same time.", 2),
    )
    backup_bandwidth_per_hypervisor = Int(
        0,
        100_000,
        load_default=200,
        **describe(
            "MiB per second at which all backups and restores of a hypervisor together read and write disks, in equal "
            "parts. 0: unlimited, which makes writes of running guests slow.",
            200,
        ),
    )
    billing_enabled = Bool(
        load_default=False,
        **describe(
            "Whether customers are charged. If false, operations that require billing return `billing_disabled`.", True
        ),
    )
    managed_backup_price = Number(
        0,
        10**6,
        load_default=0,
        **describe(
            "Monthly price of a GiB that backups by policies and jobs of the platform use, in locations with "
            "`managed_backups_billed`.",
            0.05,
        ),
    )
    customers_change_plans = Bool(
        load_default=True, **describe("Whether customers can change the plans of their instances.", True)
    )
    backup_restore_tests_per_day = Int(
        0,
        1000,
        load_default=0,
        **describe("Number of backups that are restored and started each day to test them. 0: none.", 5),
    )
    max_alert_rules = Int(0, 10000, load_default=100, **describe("Maximum number of alert rules per account.", 100))
    max_notification_channels = Int(
        0, 1000, load_default=20, **describe("Maximum number of notification channels per account.", 20)
    )
    image_catalog_url = Text(
        maximum=2000,
        load_default="",
        **describe("URL of a custom image catalog, a JSON list. Empty: the built-in catalog.", "https://…"),
    )
    acme_directory_url = Text(
        maximum=500,
        rules=[validate.Regexp(r"https://\S+\Z", error=message("Must begin with https://."))],
        load_default="https://acme-v02.api.letsencrypt.org/directory",
        **describe(
            "ACME directory (RFC 8555) of the authority for customers' certificates. Ordering"
            " certificates means agreeing to its terms.",
            "https://acme-v02.api.letsencrypt.org/directory",
        ),
    )
    acme_contact = Text(
        rules=[validate_contact],
        load_default="",
        **describe("Contact email address for that authority. Empty: none.", "ops@example.com"),
    )
    rate_limit_requests = rate_field("Requests of one token", 600)
    rate_limit_polls = rate_field("Task polls of one token", 1200)
    rate_limit_metrics = rate_field("Metrics requests of one token", 30)
    rate_limit_sign_in = rate_field("Sign-in attempts per address and per account,", 10)
    rate_limit_consoles = rate_field("Console and shell sessions of one token", 30)


class SettingsPatch(SystemSettings, Patch):
    """Changes of settings. Missing ones stay as they are."""

    area = "system"

    def __init__(self, **options):
        super().__init__(partial=True, **options)

    @pre_load
    def unwrap_settings(self, data, **_):
        """Accept a response as a request: unwrap its two outer objects."""
        for wrapper in ("settings", self.area):
            if isinstance(data, dict) and data.keys() == {wrapper} and isinstance(data[wrapper], dict):
                data = data[wrapper]
        return data


SystemOut = Out.from_dict(SystemSettings().fields, name="SystemSettings")


class SettingsByArea(Out):
    system = fields.Nested(SystemOut, **describe("Settings of the platform."))


class SettingsOut(Out):
    settings = fields.Nested(SettingsByArea, **describe("All settings, by area."))


class CloudServiceSettingsPatch(SettingsPatch):
    """Changes of those settings that are about selling resources."""

    area = "cloud_service"

    class Meta(In.Meta):
        fields = ("billing_enabled", "managed_backup_price", "customers_change_plans")


CloudServiceOut = Out.from_dict(CloudServiceSettingsPatch().fields, name="CloudServiceSettings")


class CloudServiceSettingsByArea(Out):
    cloud_service = fields.Nested(CloudServiceOut, **describe("Settings of what customers buy."))


class CloudServiceSettingsOut(Out):
    settings = fields.Nested(CloudServiceSettingsByArea, **describe("The settings, by area."))

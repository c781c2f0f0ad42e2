"""What a hypervisor group offers and on which terms, in the API (specification 2.9)."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Int, Number, Out, Text, describe
from panel.schemas.catalog import EXAMPLE_ID

ACCOUNTINGS = ("inbound", "outbound", "total")
BACKUP_MODES = ("full", "incremental")

SETTING_DESCRIPTIONS = {
    "enabled": describe("Off closes the group to new resources; existing ones go on.", True),
    "public_networking_enabled": describe("Off: new instances get no public network card and no address.", True),
    "vpc_enabled": describe("Off: no new private networks.", True),
    "natgw_enabled": describe("Off: no new NAT gateways.", True),
    "lb_enabled": describe("Off: no new load balancers.", True),
    "db_enabled": describe("Off: no new managed databases.", True),
    "microvm_enabled": describe("Off: no new micro VMs.", True),
    "image_enabled": describe("Off: no images are captured from instances.", True),
    "autoscaling_enabled": describe("Off: no new scaling groups.", True),
    "static_ip_enabled": describe("Off: no new static addresses.", True),
    "vpngw_enabled": describe("Off: no new VPN gateways.", True),
    "managed_backups_billed": describe("Whether backups by the platform's own policies cost the customer.", False),
    "vpc_network_inbound_average": describe(
        "KiB/s that a card in a private network receives; null: unlimited.", 131072
    ),
    "vpc_network_outbound_average": describe("KiB/s that a card in a private network sends; null: unlimited.", 131072),
    "natgw_credit_value": describe("Price of a NAT gateway a month.", 5.0),
    "natgw_bandwidth_rate": describe("Mbit/s of a NAT gateway; 0 is unlimited.", 1000),
    "natgw_bandwidth_accounting": describe("Which traffic of a NAT gateway counts.", "total"),
    "natgw_bandwidth_overage": describe("Price of a GB above what a NAT gateway includes.", 0.01),
    "ipv4_credit_value": describe("Price of an additional IPv4 address a month.", 1.0),
    "backup_mode": describe("How backups are made here.", "full"),
    "default_backup_policy_id": describe("The backup policy of new instances, or null.", EXAMPLE_ID),
}
MAX_PRICE = 10**6
"""Maximum of a price."""


class GroupSettingsIn(In):
    enabled = Bool(**SETTING_DESCRIPTIONS["enabled"])
    public_networking_enabled = Bool(**SETTING_DESCRIPTIONS["public_networking_enabled"])
    vpc_enabled = Bool(**SETTING_DESCRIPTIONS["vpc_enabled"])
    natgw_enabled = Bool(**SETTING_DESCRIPTIONS["natgw_enabled"])
    lb_enabled = Bool(**SETTING_DESCRIPTIONS["lb_enabled"])
    db_enabled = Bool(**SETTING_DESCRIPTIONS["db_enabled"])
    microvm_enabled = Bool(**SETTING_DESCRIPTIONS["microvm_enabled"])
    image_enabled = Bool(**SETTING_DESCRIPTIONS["image_enabled"])
    autoscaling_enabled = Bool(**SETTING_DESCRIPTIONS["autoscaling_enabled"])
    static_ip_enabled = Bool(**SETTING_DESCRIPTIONS["static_ip_enabled"])
    vpngw_enabled = Bool(**SETTING_DESCRIPTIONS["vpngw_enabled"])
    managed_backups_billed = Bool(**SETTING_DESCRIPTIONS["managed_backups_billed"])
    vpc_network_inbound_average = Int(1, allow_none=True, **SETTING_DESCRIPTIONS["vpc_network_inbound_average"])
    vpc_network_outbound_average = Int(1, allow_none=True, **SETTING_DESCRIPTIONS["vpc_network_outbound_average"])
    natgw_credit_value = Number(0, MAX_PRICE, **SETTING_DESCRIPTIONS["natgw_credit_value"])
    natgw_bandwidth_rate = Int(0, 10**6, **SETTING_DESCRIPTIONS["natgw_bandwidth_rate"])
    natgw_bandwidth_accounting = fields.String(
        validate=validate.OneOf(ACCOUNTINGS), **SETTING_DESCRIPTIONS["natgw_bandwidth_accounting"]
    )
    natgw_bandwidth_overage = Number(0, MAX_PRICE, **SETTING_DESCRIPTIONS["natgw_bandwidth_overage"])
    ipv4_credit_value = Number(0, MAX_PRICE, **SETTING_DESCRIPTIONS["ipv4_credit_value"])
    backup_mode = fields.String(validate=validate.OneOf(BACKUP_MODES), **SETTING_DESCRIPTIONS["backup_mode"])
    default_backup_policy_id = Text(maximum=36, allow_none=True, **SETTING_DESCRIPTIONS["default_backup_policy_id"])


class GroupSettingsOut(Out):
    enabled = fields.Boolean(**SETTING_DESCRIPTIONS["enabled"])
    public_networking_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["public_networking_enabled"])
    vpc_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["vpc_enabled"])
    natgw_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["natgw_enabled"])
    lb_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["lb_enabled"])
    db_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["db_enabled"])
    microvm_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["microvm_enabled"])
    image_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["image_enabled"])
    autoscaling_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["autoscaling_enabled"])
    static_ip_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["static_ip_enabled"])
    vpngw_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["vpngw_enabled"])
    managed_backups_billed = fields.Boolean(**SETTING_DESCRIPTIONS["managed_backups_billed"])
    vpc_network_inbound_average = fields.Integer(allow_none=True, **SETTING_DESCRIPTIONS["vpc_network_inbound_average"])
    vpc_network_outbound_average = fields.Integer(
        allow_none=True, **SETTING_DESCRIPTIONS["vpc_network_outbound_average"]
    )
    natgw_credit_value = fields.Float(**SETTING_DESCRIPTIONS["natgw_credit_value"])
    natgw_bandwidth_rate = fields.Integer(**SETTING_DESCRIPTIONS["natgw_bandwidth_rate"])
    natgw_bandwidth_accounting = fields.String(
        validate=validate.OneOf(ACCOUNTINGS), **SETTING_DESCRIPTIONS["natgw_bandwidth_accounting"]
    )
    natgw_bandwidth_overage = fields.Float(**SETTING_DESCRIPTIONS["natgw_bandwidth_overage"])
    ipv4_credit_value = fields.Float(**SETTING_DESCRIPTIONS["ipv4_credit_value"])
    backup_mode = fields.String(validate=validate.OneOf(BACKUP_MODES), **SETTING_DESCRIPTIONS["backup_mode"])
    default_backup_policy_id = fields.String(allow_none=True, **SETTING_DESCRIPTIONS["default_backup_policy_id"])

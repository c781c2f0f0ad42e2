"""Webhook subscriptions and deliveries in the API, and the catalog of event kinds (WHK-02)."""

from dataclasses import dataclass

from marshmallow import ValidationError, fields, post_load, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Name, Out, PageQuery, Patch, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_EVENT_ID = "0199c0a8-8a11-7d02-8f61-2b9d4e6a7c10"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
ALL_KINDS = "*"
MAX_EVENT_KINDS = 50
MAX_CLUSTERS = 100
DELIVERY_STATUSES = ("pending", "pending_retry", "delivered", "failed_permanent", "cancelled")


@dataclass(frozen=True)
class Kind:
    kind: str
    resource: str
    description: str


CLUSTER_RESOURCE = "kubernetes_cluster"
INSTANCE_RESOURCE = "instance"
EVENT_KINDS = {
    kind: Kind(kind, resource, text)
    for resource, kind, text in (
        (CLUSTER_RESOURCE, "cluster.created", message("A cluster finished provisioning.")),
        (CLUSTER_RESOURCE, "cluster.deleted", message("A cluster was deleted.")),
        (CLUSTER_RESOURCE, "cluster.updated", message("The configuration of a cluster was changed.")),
        (
            CLUSTER_RESOURCE,
            "cluster.autoscaling_updated",
            message("The autoscaling settings of a worker pool were changed."),
        ),
        (CLUSTER_RESOURCE, "pool.created", message("A worker pool was created.")),
        (
            CLUSTER_RESOURCE,
            "pool.created.scale_failed",
            message("A new worker pool could not be scaled up to its first size."),
        ),
        (CLUSTER_RESOURCE, "pool.updated", message("The configuration of a worker pool was changed.")),
        (CLUSTER_RESOURCE, "pool.deleted", message("A worker pool was deleted.")),
        (CLUSTER_RESOURCE, "pool.default_reassigned", message("Another worker pool became the default one.")),
        (
            CLUSTER_RESOURCE,
            "pool.deletion_max_attempts",
            message("A worker pool could not be deleted; it is not tried again."),
        ),
        (CLUSTER_RESOURCE, "admin.force_destroy", message("An administrator destroyed a cluster by force.")),
        (
            CLUSTER_RESOURCE,
            "admin.force_evict_node",
            message("An administrator evicted a node from a cluster by force."),
        ),
        (
            CLUSTER_RESOURCE,
            "admin.suspend_toggle",
            message("An administrator suspended a cluster or ended its suspension."),
        ),
        (CLUSTER_RESOURCE, "admin.reset_state", message("An administrator reset the lifecycle state of a cluster.")),
        (CLUSTER_RESOURCE, "admin.cancel_task", message("An administrator cancelled a task of a cluster.")),
        (CLUSTER_RESOURCE, "cert.renewed", message("The certificate of a cluster's load balancer was renewed.")),
        (INSTANCE_RESOURCE, "instance.created", message("An instance was created.")),
        (
            INSTANCE_RESOURCE,
            "instance.deployed",
            message("The deployment of an instance finished. Can be sent again after 7 days without this event."),
        ),
        (INSTANCE_RESOURCE, "instance.status_changed", message("An instance was started or stopped.")),
        (
            INSTANCE_RESOURCE,
            "instance.suspended",
            message("An instance was suspended by its user, an operator or the traffic policy."),
        ),
        (INSTANCE_RESOURCE, "instance.unsuspended", message("The suspension of an instance ended.")),
        (INSTANCE_RESOURCE, "instance.reinstalled", message("A reinstall of an instance finished.")),
        (INSTANCE_RESOURCE, "instance.deleted", message("An instance was deleted.")),
    )
}
"""Every event kind that can be subscribed to (WHK-02)."""

EVENT_KIND_GROUPS = {
    message("Instances"): ("instance.",),
    message("Kubernetes clusters"): ("cluster.", "cert."),
    message("Worker pools"): ("pool.",),
    message("Actions of administrators"): ("admin.",),
}
"""Groups of event kinds on pages, with the prefixes of their kinds."""


class EventKind(fields.String):
    """`*`, or exactly one kind of the catalog."""

    def _deserialize(self, value, attr, data, **kwargs):
        kind = super()._deserialize(value, attr, data, **kwargs)
        if kind != ALL_KINDS and kind not in EVENT_KINDS:
            raise ValidationError(
                message(
                    "There is no event kind {kind}. GET /api/webhook-event-kinds lists them; `*` alone means all.",
                    kind=repr(kind[:64]),
                )
            )
        return kind


def name_field(**options):
    return Name(maximum=255, **options, **describe("Name of the subscription.", "Inventory"))


def url_field(**options):
    text = "Target URL: https, public addresses only. Redirects are not followed."
    return Text(minimum=1, maximum=1024, **options, **describe(text, "https://hooks.example.com/panel"))


def secret_field(**options):
    text = "Secret for the signature of deliveries. It is never returned."
    return Text(minimum=16, maximum=255, **options, load_only=True, **describe(text, "a7c91e5b3f2d48609c1b"))


def event_kinds_field(**options):
    some = validate.Length(1, MAX_EVENT_KINDS)
    text = "Event kinds to deliver, or `*` for all. Duplicates are ignored."
    return fields.List(
        EventKind(), validate=some, **options, **describe(text, ["instance.created", "instance.deleted"])
    )


def cluster_filter_field(**options):
    few = validate.Length(max=MAX_CLUSTERS)
    text = (
        "Ids of your Kubernetes clusters. `cluster.*`, `pool.*`, `admin.*` and `cert.renewed` are"
        " only delivered for these clusters; events of instances are not filtered. Null or empty: all"
        " clusters."
    )
    return fields.List(fields.UUID(), validate=few, allow_none=True, **options, **describe(text, None))


def enabled_field(**options):
    text = "Whether new events are delivered. Sending true resets `consecutive_failures` to 0."
    return Bool(**options, **describe(text, True))


class NormalizeMixin:
    """Stores values with the same meaning in one form."""

    @post_load
    def normalize_lists(self, data, **_):
        if "event_kinds" in data:
            data["event_kinds"] = list(dict.fromkeys(data["event_kinds"]))
        if "cluster_filter" in data:
            data["cluster_filter"] = list(dict.fromkeys(map(str, data["cluster_filter"] or ()))) or None
        return data


class WebhookIn(NormalizeMixin, In):
    malformed = 422
    name = name_field(required=True)
    url = url_field(required=True)
    secret = secret_field(required=True)
    event_kinds = event_kinds_field(required=True)
    cluster_filter = cluster_filter_field(load_default=None)
    enabled = enabled_field(load_default=True)


class WebhookPatch(NormalizeMixin, Patch):
    malformed = 422
    name = name_field()
    url = url_field()
    secret = secret_field()
    event_kinds = event_kinds_field()
    cluster_filter = cluster_filter_field()
    enabled = enabled_field()


class WebhookOut(Out):
    id = fields.String(**describe("Subscription id.", EXAMPLE_ID))
    name = fields.String(**describe("Name of the subscription.", "Inventory"))
    url = fields.String(**describe("Target URL.", "https://hooks.example.com/panel"))
    event_kinds = fields.List(
        fields.String(), **describe("Event kinds to deliver.", ["instance.created", "instance.deleted"])
    )
    cluster_filter = fields.List(
        fields.String(), allow_none=True, **describe("Ids of clusters whose events are delivered; null for all.", None)
    )
    enabled = fields.Boolean(
        **describe("Whether new events are delivered. It is set to false after 20 consecutive failed deliveries.", True)
    )
    consecutive_failures = fields.Integer(**describe("Number of consecutive deliveries that failed permanently.", 0))
    last_delivery_status = fields.String(
        allow_none=True, **describe("Status of the last delivery, or null.", "delivered")
    )


class DeliveryOut(Out):
    id = fields.String(**describe("Delivery id.", EXAMPLE_ID))
    event_id = fields.String(allow_none=True, **describe("Event id; null for a test.", EXAMPLE_EVENT_ID))
    event_kind = fields.String(**describe("Event kind.", "instance.created"))
    status = fields.String(**describe(f"One of {', '.join(DELIVERY_STATUSES)}.", "delivered"))
    attempts = fields.Integer(**describe("Number of attempts, at most 5.", 1))
    response_code = fields.Integer(
        allow_none=True, **describe("HTTP status of the last attempt; null if there was no response.", 200)
    )
    duration_ms = fields.Integer(allow_none=True, **describe("Duration of the last attempt in milliseconds.", 84))
    error = fields.String(allow_none=True, **describe("Error of the last attempt, or null.", None))
    test = fields.Boolean(**describe("Whether it is a test without an event.", False))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))


class AdminWebhookOut(WebhookOut):
    """A customer's subscription, for operators. The secret is not shown to them either."""

    user_id = fields.String(attribute="account_id", **describe("The owner.", EXAMPLE_ID))
    disabled_at = Time(
        allow_none=True, **describe("When it was disabled because of too many failures; otherwise null.", None)
    )
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))


class AdminWebhookQuery(PageQuery):
    user_id = Text(maximum=36, **describe("Only subscriptions of this user.", EXAMPLE_ID))
    search = Text(**describe("Part of the name or URL.", "hooks.example.com"))


class DeliveryQuery(PageQuery):
    attempt = fields.UUID(
        **describe("Only the delivery with this attempt: the value of the header `X-Hypervisor-Delivery`.", EXAMPLE_ID)
    )


class AttemptOut(Out):
    id = fields.String(**describe("Attempt id: the value of its header `X-Hypervisor-Delivery`.", EXAMPLE_ID))
    at = Time(**describe("Start of the attempt.", EXAMPLE_TIME))
    status = fields.String(**describe("`delivered` or `failed`.", "delivered"))
    response_code = fields.Integer(
        allow_none=True, **describe("HTTP status of the response; null if there was none.", 200)
    )
    duration_ms = fields.Integer(allow_none=True, **describe("Duration in milliseconds.", 84))
    error = fields.String(allow_none=True, **describe("Error message, or null.", None))


class KindOut(Out):
    kind = fields.String(**describe("Value for `event_kinds`.", "instance.created"))
    resource = fields.String(
        **describe(f"Resource type: `{CLUSTER_RESOURCE}` or `{INSTANCE_RESOURCE}`.", INSTANCE_RESOURCE)
    )
    description = fields.String(**describe("Description.", "An instance was created."))


class TestIn(In):
    __test__ = False  # pytest takes it for tests
    kind = fields.String(
        load_default="instance.created",
        validate=validate.OneOf(
            list(EVENT_KINDS), error=message("Choose one of the kinds in GET /api/webhook-event-kinds.")
        ),
        **describe("Event kind of the test event.", "instance.created"),
    )

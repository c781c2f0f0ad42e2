"""Webhook subscriptions and deliveries on the wire, and the catalog of the kinds of events (specification 2.4, 6.1)."""

from dataclasses import dataclass

from marshmallow import ValidationError, fields, post_load, validate

from panel.schemas.base import Bool, In, Name, Out, PageQuery, Patch, Text, Time, about

ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EVENT_ID = "0199c0a8-8a11-7d02-8f61-2b9d4e6a7c10"
WHEN = "2026-01-02T03:04:05.678Z"
EVERY = "*"
MOST_KINDS = 50
MOST_CLUSTERS = 100
STATUSES = ("pending", "pending_retry", "delivered", "failed_permanent", "cancelled")


@dataclass(frozen=True)
class Kind:
    kind: str
    resource: str
    description: str


CLUSTER = "kubernetes_cluster"
INSTANCE = "instance"
KINDS = {
    kind: Kind(kind, resource, text)
    for resource, kind, text in (
        (CLUSTER, "cluster.created", "A cluster finished provisioning."),
        (CLUSTER, "cluster.deleted", "A cluster was deleted."),
        (CLUSTER, "cluster.updated", "The configuration of a cluster was changed."),
        (CLUSTER, "cluster.autoscaling_updated", "The autoscaling settings of a worker pool were changed."),
        (CLUSTER, "pool.created", "A worker pool was created."),
        (CLUSTER, "pool.created.scale_failed", "A new worker pool could not be scaled up to its first size."),
        (CLUSTER, "pool.updated", "The configuration of a worker pool was changed."),
        (CLUSTER, "pool.deleted", "A worker pool was deleted."),
        (CLUSTER, "pool.default_reassigned", "Another worker pool became the default one."),
        (CLUSTER, "pool.deletion_max_attempts", "A worker pool could not be deleted; it is not tried again."),
        (CLUSTER, "admin.force_destroy", "An administrator destroyed a cluster by force."),
        (CLUSTER, "admin.force_evict_node", "An administrator took a node out of a cluster by force."),
        (CLUSTER, "admin.suspend_toggle", "An administrator suspended a cluster or ended its suspension."),
        (CLUSTER, "admin.reset_state", "An administrator reset the lifecycle state of a cluster."),
        (CLUSTER, "admin.cancel_task", "An administrator cancelled a task of a cluster."),
        (CLUSTER, "cert.renewed", "The certificate of a cluster's load balancer was renewed."),
        (INSTANCE, "instance.created", "An instance was created."),
        (INSTANCE, "instance.deployed", "An instance finished deploying. May come again after 7 days without one."),
        (INSTANCE, "instance.status_changed", "An instance began to run or stopped."),
        (INSTANCE, "instance.suspended", "An instance was suspended: by its user, an administrator or network policy."),
        (INSTANCE, "instance.unsuspended", "The suspension of an instance ended."),
        (INSTANCE, "instance.reinstalled", "A reinstall of an instance finished."),
        (INSTANCE, "instance.deleted", "An instance was deleted."),
    )
}
"""Every kind of event that can be subscribed to (specification 6.1)."""

GROUPS = {
    "Instances": ("instance.",),
    "Kubernetes clusters": ("cluster.", "cert."),
    "Worker pools": ("pool.",),
    "Actions of administrators": ("admin.",),
}
"""How people find a kind: groups and how the kinds in each begin."""


class EventKind(fields.String):
    """`*`, or exactly one kind of the catalog."""

    def _deserialize(self, value, attr, data, **kwargs):
        kind = super()._deserialize(value, attr, data, **kwargs)
        if kind != EVERY and kind not in KINDS:
            raise ValidationError(
                f"There is no event kind {kind[:64]!r}. GET /api/webhook-event-kinds lists them; `*` alone means all."
            )
        return kind


def name(**options):
    return Name(most=255, **options, **about("To tell subscriptions apart.", "Inventory"))


def url(**options):
    text = "Where deliveries are sent: https, a public address. Redirects are not followed."
    return Text(least=1, most=1024, **options, **about(text, "https://hooks.example.com/panel"))


def secret(**options):
    text = "Deliveries are signed with it. It is never shown again."
    return Text(least=16, most=255, **options, load_only=True, **about(text, "a7c91e5b3f2d48609c1b"))


def event_kinds(**options):
    some = validate.Length(1, MOST_KINDS)
    text = "What is delivered: exact kinds of the catalog, or `*` for all. What is named twice counts once."
    return fields.List(EventKind(), validate=some, **options, **about(text, ["instance.created", "instance.deleted"]))


def cluster_filter(**options):
    few = validate.Length(max=MOST_CLUSTERS)
    text = (
        "Ids of your own Kubernetes clusters. `cluster.*`, `pool.*`, `admin.*` and `cert.renewed` are delivered for"
        " these only; events of instances are not limited. Null or empty: all clusters."
    )
    return fields.List(fields.UUID(), validate=few, allow_none=True, **options, **about(text, None))


def enabled(**options):
    text = "Whether new events are delivered. Sending true sets `consecutive_failures` to 0."
    return Bool(**options, **about(text, True))


class Tidy:
    """What means the same is kept the same."""

    @post_load
    def tidy(self, data, **_):
        if "event_kinds" in data:
            data["event_kinds"] = list(dict.fromkeys(data["event_kinds"]))
        if "cluster_filter" in data:
            data["cluster_filter"] = list(dict.fromkeys(map(str, data["cluster_filter"] or ()))) or None
        return data


class WebhookIn(Tidy, In):
    malformed = 422
    name = name(required=True)
    url = url(required=True)
    secret = secret(required=True)
    event_kinds = event_kinds(required=True)
    cluster_filter = cluster_filter(load_default=None)
    enabled = enabled(load_default=True)


class WebhookPatch(Tidy, Patch):
    malformed = 422
    name = name()
    url = url()
    secret = secret()
    event_kinds = event_kinds()
    cluster_filter = cluster_filter()
    enabled = enabled()


class WebhookOut(Out):
    id = fields.String(**about("Subscription id.", ID))
    name = fields.String(**about("To tell subscriptions apart.", "Inventory"))
    url = fields.String(**about("Where deliveries are sent.", "https://hooks.example.com/panel"))
    event_kinds = fields.List(fields.String(), **about("What is delivered.", ["instance.created", "instance.deleted"]))
    cluster_filter = fields.List(
        fields.String(), allow_none=True, **about("The clusters whose events are delivered; null: all.", None)
    )
    enabled = fields.Boolean(
        **about("Whether new events are delivered. 20 failed deliveries in a row set it to false.", True)
    )
    consecutive_failures = fields.Integer(**about("Deliveries in a row that failed for good.", 0))
    last_delivery_status = fields.String(allow_none=True, **about("Status of the last delivery, if any.", "delivered"))


class DeliveryOut(Out):
    id = fields.String(**about("Delivery id.", ID))
    event_id = fields.String(allow_none=True, **about("The event; null for a test.", EVENT_ID))
    event_kind = fields.String(**about("Its kind.", "instance.created"))
    status = fields.String(**about(f"One of {', '.join(STATUSES)}.", "delivered"))
    attempts = fields.Integer(**about("How often it was tried, at most 5 times.", 1))
    response_code = fields.Integer(
        allow_none=True, **about("The HTTP status that the last attempt was answered with; null: none.", 200)
    )
    duration_ms = fields.Integer(allow_none=True, **about("How long the last attempt took, in milliseconds.", 84))
    error = fields.String(allow_none=True, **about("Why the last attempt failed, in a sentence; or null.", None))
    test = fields.Boolean(**about("Whether it was sent to try the receiver, without an event behind it.", False))
    created_at = Time(**about("When it was made.", WHEN))


class AdminWebhookOut(WebhookOut):
    """A customer's subscription, for operators. The secret is not shown to them either."""

    user_id = fields.String(attribute="account_id", **about("Whose subscription it is.", ID))
    disabled_at = Time(
        allow_none=True, **about("When too many failures disabled it; null when a person did, or nobody.", None)
    )
    created_at = Time(**about("When it was created.", WHEN))


class AdminWebhookQuery(PageQuery):
    user_id = Text(most=36, **about("Only the subscriptions of this account.", ID))
    search = Text(**about("Part of a name or of the address.", "hooks.example.com"))


class DeliveryQuery(PageQuery):
    attempt = fields.UUID(
        **about("Only the delivery with this attempt: the value of the header `X-Hypervisor-Delivery`.", ID)
    )


class AttemptOut(Out):
    id = fields.String(**about("The attempt: the value of its header `X-Hypervisor-Delivery`.", ID))
    at = Time(**about("When it began.", WHEN))
    status = fields.String(**about("`delivered` or `failed`.", "delivered"))
    response_code = fields.Integer(
        allow_none=True, **about("The HTTP status of the receiver's answer; null: there was none.", 200)
    )
    duration_ms = fields.Integer(allow_none=True, **about("How long it took, in milliseconds.", 84))
    error = fields.String(allow_none=True, **about("Why it failed, in a sentence; or null.", None))


class KindOut(Out):
    kind = fields.String(**about("What `event_kinds` may name.", "instance.created"))
    resource = fields.String(**about(f"What it happens to: `{CLUSTER}` or `{INSTANCE}`.", INSTANCE))
    description = fields.String(**about("What has happened.", "An instance was created."))


class TestIn(In):
    __test__ = False  # pytest takes it for tests
    kind = fields.String(
        load_default="instance.created",
        validate=validate.OneOf(list(KINDS), error="Choose one of the kinds in GET /api/webhook-event-kinds."),
        **about("The kind of the made-up event.", "instance.created"),
    )

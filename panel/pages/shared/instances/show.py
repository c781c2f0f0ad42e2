"""The page of an instance: the header, which every tab has, and the tabs."""

from functools import partial

from flask import abort, request, url_for

from panel.auth.browser_session import get_current_access
from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Rescue
from panel.pages.shared.area import (
    get_endpoint_prefix,
    get_instance,
    get_owner,
    has_permission,
    is_operator_area,
    permission_error,
    route,
    scope_account,
    tab_url,
)
from panel.pages.shared.console_views import list_console_errors
from panel.pages.shared.instances import (
    backups_tab,
    docker_tab,
    media,
    network_tab,
    operator_tabs,
    protection,
    snapshots_tab,
)
from panel.pages.shared.instances.load_tiles import build_load_tiles
from panel.pages.shared.instances.power_buttons import iter_power_buttons, power_url
from panel.pages.shared.task_retries import build_retry
from panel.schemas.guests import PushKeysIn
from panel.schemas.instances import InstanceSettings
from panel.services import disks, events, instances, metrics, projects, ssh_keys, tasks, usage, watched_instances
from panel.web import charts, flash_secrets
from panel.web.activity_view import label_events
from panel.web.forms import Form
from panel.web.htmx import flash_message, is_htmx_request, redirect_to, render
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext
from panel.web.word_labels import word_label

INSTANCE_TEMPLATES = {"": "customer/instances/show.html", "admin_": "admin/instances/show.html"}
"""{prefix of the area: template}. The templates differ around the tabs."""
INSTANCE_TABS = (
    "overview",
    "metrics",
    "network",
    "storage",
    "media",
    "snapshots",
    "backups",
    "apps",
    "tasks",
    "activity",
    "settings",
)
MAX_RECENT = 5
BOOT_ORDERS = (
    ("disk", lazy_gettext("Disk")),
    ("disk,cdrom", lazy_gettext("Disk, then CD")),
    ("cdrom,disk", lazy_gettext("CD, then disk")),
    ("disk,network", lazy_gettext("Disk, then network")),
    ("network,disk", lazy_gettext("Network, then disk")),
    ("cdrom,disk,network", lazy_gettext("CD, disk, network")),
)


def list_boot_orders(instance):
    """Return the choices of boot orders, including one that was set through the API."""
    return BOOT_ORDERS if instance.boot in dict(BOOT_ORDERS) else ((instance.boot, instance.boot), *BOOT_ORDERS)


@route("GET", "/<instance_id>", can="instances.view", endpoint="show", defaults={"tab": "overview"})
@route("GET", "/<instance_id>/<tab>", can="instances.view", endpoint="tab")
def show(instance_id, tab):
    if tab not in INSTANCE_TABS:
        abort(404)
    try:
        context = build_context(instance_id, tab)
    except NotFound:
        return redirect_if_destroyed(instance_id)
    password = None if is_htmx_request() else flash_secrets.pop(instance_id)
    return render(INSTANCE_TEMPLATES[get_endpoint_prefix()], "live", password=password, **context)


@route("GET", "/<instance_id>/media/now", can="instances.view")
def show_media_tab(instance_id):
    """Render the media tab alone. The periodic refresh leaves it out, so that its forms keep their input."""
    return render(
        INSTANCE_TEMPLATES[get_endpoint_prefix()], "media", password=None, **build_context(instance_id, "media")
    )


def redirect_if_destroyed(instance_id):
    """Redirect the open page of a destroyed instance to the list. Raises NotFound otherwise."""
    ended = session.scalars(tasks.listing(scope_account(), resource_id=instance_id).limit(1)).first()
    if not is_htmx_request() or ended is None or (ended.kind, ended.status) != ("instance_destroy", "completed"):
        raise NotFound(_("No such instance."))
    flash_message(_("Instance destroyed."))
    return redirect_to(url_for(f"{get_endpoint_prefix()}instances.index"))


def build_context(instance_id, tab, **extra):
    """Return the context of the template for a tab."""
    instance = get_instance(instance_id)
    watched_instances.mark_watched(instance)
    latest = session.scalars(tasks.listing(scope_account(), resource_id=instance.id).limit(MAX_RECENT)).all()
    context = {
        "instance": instance,
        "tab": tab,
        "tabbed": [(word_label(name), tab_url(instance, name), name == tab) for name in INSTANCE_TABS],
        "power_buttons": list(iter_power_buttons(instance)),
        "power_url": partial(power_url, instance),
        "console_refusals": list_console_errors(instance, permission_error("instances.console"), is_operator_area()),
        "latest": latest,
        "running": next((task for task in latest if task.open), None),
        "failed": next((task for task in latest[:1] if task.status == "failed"), None),
        "retry": build_retry(latest[0]) if latest else None,
        "may_deploy": instances.action_error(instance, "deploy") is None,
        "reinstall_error": instances.REASON_MESSAGES.get(instances.action_error(instance, "reinstall")),
        "destroy_error": instances.REASON_MESSAGES.get(
            instances.action_error(instance, "destroy", by_operator=is_operator_area())
        ),
        "in_rescue": session.get(Rescue, instance.id) is not None,
        "stale": instance.deployed and instance.hypervisor.status != "up",
        "instance_names": {instance.id: instance.display_name},
    }
    if tab == "tasks":
        context["page"] = Page(tasks.listing(scope_account(), resource_id=instance.id))
    if tab == "activity":
        context["page"] = Page(events.listing(scope_account(), resource_id=instance.id))
        context["events_shown"] = label_events(context["page"].rows, has_links=not is_operator_area())
    if tab == "overview":
        context |= build_overview_context(instance)
    if tab == "storage":
        context["volumes_offered"] = (
            not is_operator_area() and has_permission("volumes.view") and usage.is_billing_enabled(get_current_access())
        )
        context["disks_error"] = instances.REASON_MESSAGES.get(
            disks.change_error(instance, by_operator=is_operator_area())
        )
    if tab == "snapshots":
        context |= snapshots_tab.build_context(instance)
    if tab == "backups" and not is_operator_area():
        context |= backups_tab.build_context(instance)
    if tab == "apps":
        context |= docker_tab.build_context(instance)
    if tab == "network":
        context |= network_tab.build_context(instance)
    if tab == "metrics":
        time_range = charts.parse_requested_range(request.args.get("range"), instance.created_at)
        context |= {"charts": charts, "series": metrics.get_series(instance, time_range)}
    if tab == "media":
        context |= media.build_context(instance) | {"boots": list_boot_orders(instance)}
    if tab == "settings":
        context |= build_settings_context(instance)
    if is_operator_area():
        context |= operator_tabs.build_context(instance, tab)
    return context | extra


def build_overview_context(instance):
    """Return the context of the overview tab: load, guest, newest activity and protection."""
    recent = session.scalars(events.listing(scope_account(), resource_id=instance.id).limit(MAX_RECENT)).all()
    return {
        "load_tiles": build_load_tiles(instance) if instance.deployed else [],
        "guest": instances.find_guest_report(instance),
        "events_shown": label_events(recent, has_links=not is_operator_area()),
        **protection.build_context(instance),
    }


def build_settings_context(instance):
    """Return the context of the settings tab. Operators do not move instances between a customer's projects."""
    keys = session.scalars(ssh_keys.listing(get_owner(instance))).all()
    groups = (
        projects.listing(get_current_access()) if has_permission("projects.view") and not is_operator_area() else None
    )
    return {
        "form": Form(InstanceSettings, initial=instance),
        "push_keys_form": Form(PushKeysIn),
        "keys": [(key.id, key.name) for key in keys],
        "guest_error": instances.REASON_MESSAGES.get(
            instances.guest_access_error(instance, by_operator=is_operator_area())
        ),
        "tpm_error": instances.tpm_error(instance),
        "secure_boot_error": instances.secure_boot_error(instance),
        "projects": session.scalars(groups).all() if groups is not None else [],
    }

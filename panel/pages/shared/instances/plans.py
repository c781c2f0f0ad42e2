"""Changing the plan of an instance, on a page of its own."""

from panel.auth.browser_session import get_current_actor
from panel.pages.shared.area import get_instance, is_operator_area, route, tab_url
from panel.schemas.instances import PlanChange
from panel.services import instances
from panel.services.instances import plans
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _


@route("GET", "/<instance_id>/change-plan", can="instances.manage")
def choose_plan(instance_id):
    return plan_page(get_instance(instance_id), Form(PlanChange))


@route("POST", "/<instance_id>/change-plan", can="instances.manage")
def change_plan(instance_id):
    instance, form = get_instance(instance_id), Form(PlanChange)
    by = {"actor": get_current_actor(), "by_operator": is_operator_area()}
    if form.submit(lambda plan_id: instances.change_plan(instance, plan_id=plan_id, **by)):
        flash_message(_("Plan changed. Resize of the disk requested."))
        return redirect_to(tab_url(instance, "overview"))
    return plan_page(get_instance(instance_id), form)


def plan_page(instance, form):
    reason = instances.action_error(instance, "change_plan")
    disabled_reason = plans.owner_change_error(instance) or (reason and instances.REASON_MESSAGES[reason])
    context = {"instance": instance, "plan_choices": plans.list_offered(instance), "disabled_reason": disabled_reason}
    return render("customer/instances/change_plan.html", "form", status=form.status, form=form, **context)

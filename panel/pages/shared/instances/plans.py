"""Moving an instance to another plan, on a page of its own."""

from panel.auth.browser_session import actor
from panel.pages.shared.area import at, found, operating, page
from panel.schemas.instances import PlanChange
from panel.services import instances
from panel.services.instances import plans
from panel.web.forms import Form
from panel.web.htmx import go, render, say


@page("GET", "/<instance_id>/change-plan", can="instances.manage")
def choose_plan(instance_id):
    return plan_page(found(instance_id), Form(PlanChange))


@page("POST", "/<instance_id>/change-plan", can="instances.manage")
def change_plan(instance_id):
    instance, form = found(instance_id), Form(PlanChange)
    by = {"actor": actor(), "by_operator": operating()}
    if form.submit(lambda plan_id: instances.change_plan(instance, plan_id=plan_id, **by)):
        say("Plan changed. Growth of the disk requested.")
        return go(at(instance, "overview"))
    return plan_page(found(instance_id), form)


def plan_page(instance, form):
    reason = instances.refusal(instance, "change_plan")
    why_not = plans.allowed(instance) or (reason and instances.WORDS[reason])
    context = {"instance": instance, "offered": plans.offered(instance), "why_not": why_not}
    return render("user/instances/change_plan.html", "form", status=form.status, form=form, **context)

"""Moving an instance to another plan, on a page of its own."""

from flask import url_for

from panel.auth.browser import actor, page_can
from panel.forms import Form
from panel.htmx import go, render, say
from panel.schemas.instances import PlanChange
from panel.services import instances
from panel.services.instances import plans
from panel.user.instances import bp
from panel.user.instances.show import mine


@bp.get("/<instance_id>/change-plan")
@page_can("instances.manage")
def choose_plan(instance_id):
    return page(mine(instance_id), Form(PlanChange))


@bp.post("/<instance_id>/change-plan")
@page_can("instances.manage")
def change_plan(instance_id):
    instance, form = mine(instance_id), Form(PlanChange)
    if form.submit(lambda plan_id: instances.change_plan(instance, plan_id=plan_id, actor=actor())):
        say("The plan is changed. The disk is being grown.")
        return go(url_for(".show", instance_id=instance_id))
    return page(mine(instance_id), form)


def page(instance, form):
    reason = instances.refusal(instance, "change_plan")
    why_not = plans.allowed(instance) or (reason and instances.WORDS[reason])
    found = {"instance": instance, "offered": plans.offered(instance), "why_not": why_not}
    return render("user/instances/change_plan.html", "form", status=form.status, form=form, **found)

"""Container apps of an instance: installing Docker, the catalog, deploying and controlling apps."""

import json

from flask import request, url_for

from panel.auth.browser_session import get_current_actor
from panel.core.messages import message
from panel.pages.shared.area import get_endpoint_prefix, get_instance, is_operator_area, route, tab_url
from panel.pages.shared.instances import docker_forms
from panel.pages.shared.instances.docker_tab import MANAGE_PERMISSION, find_error_message, list_apps, list_exposed_ports
from panel.services import docker_apps
from panel.services import docker_deployments as deployments
from panel.services.docker_deployments import firewall_ports
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.translation import gettext as _
from panel.web.translation import translate
from panel.workflows import docker_logs, docker_support, reachability

TEMPLATE_FOLDER = "customer/instances/docker"
DEPLOY_MESSAGE = message("Deployment of {name} requested.")
APP_ACTION_MESSAGES = {
    "start": message("Start of {name} requested."),
    "stop": message("Stop of {name} requested."),
    "restart": message("Restart of {name} requested."),
    "retry": DEPLOY_MESSAGE,
    "check": message("Check of {name} requested."),
}
REMOVED_MESSAGE = message("Removal of {name} requested. Data in its volumes stays on the instance.")
REMOVED_LATER_MESSAGE = message("{name} removed. Its containers are deleted when the instance is reachable again.")


@route("POST", "/<instance_id>/apps/install", can=MANAGE_PERMISSION)
def install_docker(instance_id):
    instance = get_instance(instance_id)
    docker_support.install(instance, actor=get_current_actor(), by_operator=is_operator_area())
    return build_action_response(_("Installation of Docker requested."), tab_url(instance, "apps"), "info")


@route("GET", "/<instance_id>/apps/catalog", can="instances.view")
def app_catalog(instance_id):
    instance = get_instance(instance_id)
    rows = list_apps(instance, request.args.get("search", "")[:255])
    deploy_error = find_error_message(deployments.deploy_error(instance, by_operator=is_operator_area()))
    return render(f"{TEMPLATE_FOLDER}/catalog.html", "rows", instance=instance, rows=rows, deploy_error=deploy_error)


@route("GET", "/<instance_id>/apps/new/<slug>", can=MANAGE_PERMISSION)
def new_app(instance_id, slug):
    app = docker_apps.get(slug)
    return app_page(
        get_instance(instance_id), app, Form(docker_forms.app_schema(app), initial=docker_forms.get_initial_values(app))
    )


@route("POST", "/<instance_id>/apps/new/<slug>", can=MANAGE_PERMISSION)
def deploy_app(instance_id, slug):
    instance, app = get_instance(instance_id), docker_apps.get(slug)
    form = Form(docker_forms.app_schema(app))

    def deploy(**data):
        reachability.check_guest(instance, by_operator=is_operator_area())
        return deployments.deploy_app(
            instance,
            actor=get_current_actor(),
            by_operator=is_operator_area(),
            **docker_forms.build_deploy_arguments(app, data),
        )

    if not form.submit(deploy):
        return app_page(get_instance(instance_id), app, form, "form")
    row, _task, generated_values = form.result
    flash_message(translate(DEPLOY_MESSAGE.format(name=app.name)), "info")
    if not generated_values:
        return redirect_to(tab_url(instance, "apps"))
    flash_secrets.store(row.id, json.dumps(generated_values))
    return redirect_to(
        url_for(f"{get_endpoint_prefix()}instances.app_secrets", instance_id=instance.id, deployment_id=row.id)
    )


def app_page(instance, app, form, block=None):
    ports = [{"host_port": port.host_port, "protocol": port.protocol} for port in app.ports]
    context = {
        "closed_ports": firewall_ports.list_closed_ports(instance, ports),
        "taken_ports": deployments.list_taken_ports(instance),
        "deploy_error": find_error_message(deployments.deploy_error(instance, by_operator=is_operator_area())),
    }
    return render(
        f"{TEMPLATE_FOLDER}/app.html", block, status=form.status, instance=instance, app=app, form=form, **context
    )


@route("GET", "/<instance_id>/apps/compose", can=MANAGE_PERMISSION)
def new_compose(instance_id):
    return compose_page(get_instance(instance_id), Form(docker_forms.ComposeForm))


@route("POST", "/<instance_id>/apps/compose", can=MANAGE_PERMISSION)
def deploy_compose(instance_id):
    instance, form = get_instance(instance_id), Form(docker_forms.ComposeForm)

    def deploy(**data):
        reachability.check_guest(instance, by_operator=is_operator_area())
        return deployments.deploy_compose(instance, actor=get_current_actor(), by_operator=is_operator_area(), **data)

    if form.submit(deploy):
        flash_message(translate(DEPLOY_MESSAGE.format(name=form.result[0].app_name)), "info")
        return redirect_to(tab_url(instance, "apps"))
    return compose_page(get_instance(instance_id), form, "form")


def compose_page(instance, form, block=None):
    deploy_error = find_error_message(deployments.deploy_error(instance, by_operator=is_operator_area()))
    return render(
        f"{TEMPLATE_FOLDER}/compose.html",
        block,
        status=form.status,
        instance=instance,
        form=form,
        deploy_error=deploy_error,
    )


@route("GET", "/<instance_id>/apps/<deployment_id>/secrets", can=MANAGE_PERMISSION)
def app_secrets(instance_id, deployment_id):
    instance = get_instance(instance_id)
    row = deployments.get(instance, deployment_id)
    secrets = flash_secrets.pop(row.id)
    if secrets is None:
        return redirect_to(tab_url(instance, "apps"))
    return render(f"{TEMPLATE_FOLDER}/secrets.html", instance=instance, row=row, generated_values=json.loads(secrets))


@route("GET", "/<instance_id>/apps/<deployment_id>/logs", can="instances.console")
def app_logs(instance_id, deployment_id):
    return logs_page(get_instance(instance_id), deployment_id)


@route("POST", "/<instance_id>/apps/<deployment_id>/logs", can="instances.console")
def read_app_logs(instance_id, deployment_id):
    instance = get_instance(instance_id)
    docker_logs.fetch_logs(deployments.get(instance, deployment_id))
    return logs_page(instance, deployment_id)


def logs_page(instance, deployment_id):
    row = deployments.get(instance, deployment_id)
    context = {"row": row, "logs": deployments.get_logs(row), "exposed_ports": list_exposed_ports(instance, row.ports)}
    return render(f"{TEMPLATE_FOLDER}/logs.html", "logs", instance=instance, **context)


@route(
    "POST",
    "/<instance_id>/apps/<deployment_id>/<any(start, stop, restart, retry, check):action>",
    can=MANAGE_PERMISSION,
)
def use_app(instance_id, deployment_id, action):
    instance = get_instance(instance_id)
    row = deployments.get(instance, deployment_id)
    reachability.check_guest(instance, by_operator=is_operator_area())
    by = {"actor": get_current_actor(), "by_operator": is_operator_area()}
    if action in ("retry", "check"):
        {"retry": deployments.retry, "check": deployments.request_probe}[action](row, **by)
    else:
        deployments.control(row, action, **by)
    return build_action_response(
        translate(APP_ACTION_MESSAGES[action].format(name=row.app_name)), tab_url(instance, "apps"), "info"
    )


@route("POST", "/<instance_id>/apps/<deployment_id>/remove", can=MANAGE_PERMISSION)
def remove_app(instance_id, deployment_id):
    instance = get_instance(instance_id)
    row = deployments.get(instance, deployment_id)
    name, task = row.app_name, deployments.remove(row, actor=get_current_actor(), by_operator=is_operator_area())
    done_message = REMOVED_MESSAGE if task else REMOVED_LATER_MESSAGE
    return build_action_response(translate(done_message.format(name=name)), tab_url(instance, "apps"))

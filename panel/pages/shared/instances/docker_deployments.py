"""Container apps of an instance: installing Docker, the catalog, deploying, and what is done with an app."""

import json

from flask import request, url_for

from panel.auth.browser_session import actor
from panel.pages.shared.area import area, at, found, operating, page
from panel.pages.shared.instances import docker_forms
from panel.pages.shared.instances.docker_tab import MANAGE, doors, offered, why
from panel.services import docker_apps
from panel.services import docker_deployments as deployments
from panel.services.docker_deployments import firewall_ports
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.workflows import docker_logs, docker_support, reachability

FOLDER = "user/instances/docker"
DEPLOYS = "Deployment of {} requested."
DONE = {
    "start": "Start of {} requested.",
    "stop": "Stop of {} requested.",
    "restart": "Restart of {} requested.",
    "retry": DEPLOYS,
    "check": "Check of {} requested.",
}
REMOVED = "Removal of {} requested. Data in its volumes stays on the instance."
STAYS = "{} is removed. Its containers stay on the disk of the machine until that can be reached, and are removed then."


@page("POST", "/<instance_id>/apps/install", can=MANAGE)
def install_docker(instance_id):
    instance = found(instance_id)
    docker_support.install(instance, actor=actor(), by_operator=operating())
    return did("Installation of Docker requested.", at(instance, "apps"), "info")


@page("GET", "/<instance_id>/apps/catalog", can="instances.view")
def app_catalog(instance_id):
    instance = found(instance_id)
    rows = offered(instance, request.args.get("search", "")[:255])
    no = why(deployments.why_no_deploy(instance, by_operator=operating()))
    return render(f"{FOLDER}/catalog.html", "rows", instance=instance, rows=rows, no_deploy=no)


@page("GET", "/<instance_id>/apps/new/<slug>", can=MANAGE)
def new_app(instance_id, slug):
    app = docker_apps.get(slug)
    return app_page(found(instance_id), app, Form(docker_forms.form_of(app), known=docker_forms.known(app)))


@page("POST", "/<instance_id>/apps/new/<slug>", can=MANAGE)
def deploy_app(instance_id, slug):
    instance, app = found(instance_id), docker_apps.get(slug)
    form = Form(docker_forms.form_of(app))

    def deploy(**data):
        reachability.check_guest(instance, by_operator=operating())
        return deployments.deploy_app(
            instance, actor=actor(), by_operator=operating(), **docker_forms.wanted(app, data)
        )

    if not form.submit(deploy):
        return app_page(found(instance_id), app, form, "form")
    row, _, made_up = form.result
    say(DEPLOYS.format(app.name), "info")
    if not made_up:
        return go(at(instance, "apps"))
    flash_secrets.keep(row.id, json.dumps(made_up))
    return go(url_for(f"{area()}instances.app_secrets", instance_id=instance.id, deployment_id=row.id))


def app_page(instance, app, form, block=None):
    ports = [{"host_port": port.host_port, "protocol": port.protocol} for port in app.ports]
    context = {
        "shut": firewall_ports.shut(instance, ports),
        "taken": deployments.taken(instance),
        "no_deploy": why(deployments.why_no_deploy(instance, by_operator=operating())),
    }
    return render(f"{FOLDER}/app.html", block, status=form.status, instance=instance, app=app, form=form, **context)


@page("GET", "/<instance_id>/apps/compose", can=MANAGE)
def new_compose(instance_id):
    return compose_page(found(instance_id), Form(docker_forms.ComposeForm))


@page("POST", "/<instance_id>/apps/compose", can=MANAGE)
def deploy_compose(instance_id):
    instance, form = found(instance_id), Form(docker_forms.ComposeForm)

    def deploy(**data):
        reachability.check_guest(instance, by_operator=operating())
        return deployments.deploy_compose(instance, actor=actor(), by_operator=operating(), **data)

    if form.submit(deploy):
        say(DEPLOYS.format(form.result[0].app_name), "info")
        return go(at(instance, "apps"))
    return compose_page(found(instance_id), form, "form")


def compose_page(instance, form, block=None):
    no = why(deployments.why_no_deploy(instance, by_operator=operating()))
    return render(f"{FOLDER}/compose.html", block, status=form.status, instance=instance, form=form, no_deploy=no)


@page("GET", "/<instance_id>/apps/<deployment_id>/secrets", can=MANAGE)
def app_secrets(instance_id, deployment_id):
    instance = found(instance_id)
    row = deployments.get(instance, deployment_id)
    kept = flash_secrets.take(row.id)
    if kept is None:
        return go(at(instance, "apps"))
    return render(f"{FOLDER}/secrets.html", instance=instance, row=row, made_up=json.loads(kept))


@page("GET", "/<instance_id>/apps/<deployment_id>/logs", can="instances.console")
def app_logs(instance_id, deployment_id):
    return logs_page(found(instance_id), deployment_id)


@page("POST", "/<instance_id>/apps/<deployment_id>/logs", can="instances.console")
def read_app_logs(instance_id, deployment_id):
    instance = found(instance_id)
    docker_logs.read(deployments.get(instance, deployment_id))
    return logs_page(instance, deployment_id)


def logs_page(instance, deployment_id):
    row = deployments.get(instance, deployment_id)
    context = {"row": row, "logs": deployments.logs(row), "doors": doors(instance, row.ports)}
    return render(f"{FOLDER}/logs.html", "logs", instance=instance, **context)


@page("POST", "/<instance_id>/apps/<deployment_id>/<any(start, stop, restart, retry, check):action>", can=MANAGE)
def use_app(instance_id, deployment_id, action):
    instance = found(instance_id)
    row = deployments.get(instance, deployment_id)
    reachability.check_guest(instance, by_operator=operating())
    by = {"actor": actor(), "by_operator": operating()}
    if action in ("retry", "check"):
        getattr(deployments, action)(row, **by)
    else:
        deployments.control(row, action, **by)
    return did(DONE[action].format(row.app_name), at(instance, "apps"), "info")


@page("POST", "/<instance_id>/apps/<deployment_id>/remove", can=MANAGE)
def remove_app(instance_id, deployment_id):
    instance = found(instance_id)
    row = deployments.get(instance, deployment_id)
    name, task = row.app_name, deployments.remove(row, actor=actor(), by_operator=operating())
    return did((REMOVED if task else STAYS).format(name), at(instance, "apps"))

"""What the pages of micro VM images have in common in both areas."""

from flask import url_for

from panel.auth.browser_session import get_current_actor
from panel.core.db import session
from panel.pages.shared.area import is_operator_area
from panel.services import microvms, usage
from panel.services.hypervisors import select_group_names
from panel.services.microvms import image_builds, images
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _


def create_image(access, form):
    """Build the image of a submitted form: the platform's without `access`."""
    if form.submit(lambda **values: image_builds.create(access, actor=get_current_actor(), **values)):
        return redirect_to(url_for(".show", image_id=form.result.id))
    return render_build_form(access, form)


def render_build_form(access, form):
    locations = microvms.list_locations(access) if access else session.execute(select_group_names()).all()
    context = {
        "form": form,
        "sources": session.scalars(images.select_available(access)).all(),
        "locations": locations,
        "locations_error": microvms.locations_error(locations) if access else None,
        "minutes": image_builds.MAX_BUILD_MINUTES,
        "billing_error": usage.billing_error(access) if access else None,
    }
    return render(get_template("new"), "form", status=form.status, **context)


def update_image(image, schema):
    form = Form(schema)
    if form.submit(lambda **changes: images.update(image, changes)):
        flash_message(_("Image saved."))
        return redirect_to(url_for(".show", image_id=image.id))
    return render_edit_form(image, form)


def render_edit_form(image, form):
    return render(get_template("edit"), "form", status=form.status, image=image, form=form)


def delete_image(image):
    name = image.name
    images.delete(image)
    flash_message(_("%(name)s deleted.", name=name))
    return redirect_to(url_for(".index"))


def get_template(name):
    return f"{'admin' if is_operator_area() else 'customer'}/microvm_images/{name}.html"

"""A customer's own cloud-init configuration: YAML that is safe to parse and to write as JSON."""

import json

import yaml
from marshmallow import ValidationError

from panel.core.messages import get_message, message


class AliasFreeLoader(yaml.SafeLoader):
    """YAML without aliases, because a few lines of them can expand to gigabytes."""

    def compose_node(self, parent, index):
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("Aliases are not supported.")
        return super().compose_node(parent, index)


def parse(text):
    """Return the configuration as a dictionary. Raise ValueError with a sentence."""
    try:
        mapping = yaml.load(text or "{}", AliasFreeLoader) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(message("Is not valid YAML: {detail}", detail=str(error).splitlines()[0])) from None
    if not isinstance(mapping, dict):
        raise ValueError(message("Must be a YAML mapping."))
    return json.loads(json.dumps(mapping, default=str))


def validate_cloud_config(text):
    """Validate a field with such a configuration."""
    try:
        parse(text)
    except ValueError as error:
        raise ValidationError(get_message(error)) from None

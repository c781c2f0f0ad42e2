"""A customer's own cloud-init configuration: YAML that is safe to take apart and to write down as JSON."""

import json

import yaml
from marshmallow import ValidationError


class AliasFreeLoader(yaml.SafeLoader):
    """YAML without aliases: a few lines of them can stand for gigabytes."""

    def compose_node(self, parent, index):
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("Aliases are not supported.")
        return super().compose_node(parent, index)


def parse(text):
    """The mapping. Raises ValueError with what is wrong, in a sentence."""
    try:
        found = yaml.load(text or "{}", AliasFreeLoader) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"Is not valid YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(found, dict):
        raise ValueError("Must be a YAML mapping.")
    return json.loads(json.dumps(found, default=str))


def validate_cloud_config(text):
    """The rule of a field that holds such a configuration."""
    try:
        parse(text)
    except ValueError as error:
        raise ValidationError(str(error)) from None

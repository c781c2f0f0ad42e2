"""Options that commands prompt for, at a terminal only, so that a script never waits for input."""

import sys

import click


class PromptedOption(click.Option):
    """An option that is prompted for when it is not given. Without a terminal it has the value `otherwise`; if that is
    None, the command fails and names the missing option."""

    def __init__(self, *names, otherwise=None, **options):
        super().__init__(*names, **{"prompt": True, **options})
        self.default_without_terminal = otherwise

    def prompt_for_value(self, ctx):
        if sys.stdin.isatty():
            return super().prompt_for_value(ctx)
        if self.default_without_terminal is None:
            raise click.MissingParameter(ctx=ctx, param=self)
        return self.default_without_terminal

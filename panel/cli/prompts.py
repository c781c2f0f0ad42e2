"""What a command asks for. Only at a terminal: elsewhere nobody can answer, and a script must not wait for ever."""

import sys

import click


class PromptedOption(click.Option):
    """An option that is asked for where it is not given. Without a terminal it is `otherwise`; with none of that, the
    command says which option is missing."""

    def __init__(self, *names, otherwise=None, **facts):
        super().__init__(*names, **{"prompt": True, **facts})
        self.default_without_terminal = otherwise

    def prompt_for_value(self, ctx):
        if sys.stdin.isatty():
            return super().prompt_for_value(ctx)
        if self.default_without_terminal is None:
            raise click.MissingParameter(ctx=ctx, param=self)
        return self.default_without_terminal

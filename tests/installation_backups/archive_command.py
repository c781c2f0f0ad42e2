"""Running `panel backup` in the process of a test."""

from click.testing import CliRunner

from panel.cli import backup as backup_command


def run(*arguments):
    """Run `panel backup`, and return its exit code and its output or error."""
    result = CliRunner().invoke(backup_command.command, list(map(str, arguments)))
    return result.exit_code, result.output or (str(result.exception) if result.exception else "")

"""`python -m panel.cli`: the same as the command `panel`."""

from panel.cli import main

main(prog_name="panel")

"""The benchmarks: ratios within one run, because nobody knows how busy the machine is.

`make bench`, or `python -m tests.bench.run rows` for one of them. Ends with status 1 when a target is missed.
"""

import sys
from importlib import import_module

NAMES = ("rows", "access", "deploy", "consoles", "shells", "webhooks", "metrics", "nodes")


def main(names):
    missed = []

    def report(what, value, most=None, *, least=None, unit=""):
        """`value` is a ratio, or has a unit. It may be at most `most`, or must be at least `least`."""
        wanted = f"at most {most}" if least is None else f"at least {least}"
        print(f"{what}: {value:.2f}{unit} ({wanted}{unit})", flush=True)
        if value > most if least is None else value < least:
            missed.append(what)

    for name in names or NAMES:
        import_module(f"tests.bench.{name}").bench(report)
    if missed:
        sys.exit(f"Missed: {', '.join(missed)}.")


if __name__ == "__main__":
    main(sys.argv[1:])

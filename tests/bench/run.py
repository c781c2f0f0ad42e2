"""The benchmarks: ratios within one run, because nobody knows how busy the machine is.

`make bench`, or `python -m tests.bench.run rows` for one of them. Ends with status 1 when a target is missed.
"""

import sys
from importlib import import_module

NAMES = ("rows", "access", "deploy")


def main(names):
    missed = []

    def report(what, ratio, most):
        print(f"{what}: {ratio:.2f} (at most {most})", flush=True)
        if ratio > most:
            missed.append(what)

    for name in names or NAMES:
        import_module(f"tests.bench.{name}").bench(report)
    if missed:
        sys.exit(f"Missed: {', '.join(missed)}.")


if __name__ == "__main__":
    main(sys.argv[1:])

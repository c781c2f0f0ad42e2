"""Run the benchmarks. They measure ratios within one run, because other load on the machine is unknown.

`make bench`, or `python -m tests.bench.run rows` for one of them. Ends with status 1 when a target is missed. With
`--quick` the sizes are tiny and no target is checked: it shows that a benchmark runs. Each runs in its own process, so
that none is affected by the state of another.
"""

import subprocess
import sys
from importlib import import_module

BENCHMARK_NAMES = (
    "rows",
    "access",
    "deploy",
    "consoles",
    "shells",
    "live_events",
    "webhooks",
    "metrics",
    "metrics_export",
    "alert_rules",
    "nodes",
    "mux",
    "sandboxes",
    "microvms",
    "backups",
    "backup_list",
    "backup_latency",
    "pages",
)


def main(names, *options):
    if len(names) == 1:
        return run(names[0], is_quick="--quick" in options)
    command = [sys.executable, "-m", "tests.bench.run", *options]
    failed = [name for name in names or BENCHMARK_NAMES if subprocess.run([*command, name]).returncode]
    return f"Missed or failed: {', '.join(failed)}." if failed else None


def run(name, is_quick):
    """Run one benchmark and return what was missed, as a sentence, or None."""
    missed = []

    def report(what, value, maximum=None, *, minimum=None, unit=""):
        """Print the value, a ratio or with a unit. Record it as missed if above `maximum` or below `minimum`."""
        target = f"at most {maximum}" if minimum is None else f"at least {minimum}"
        print(f"{what}: {value:.2f}{unit} ({target}{unit})", flush=True)
        if value > maximum if minimum is None else value < minimum:
            missed.append(what)

    module = import_module(f"tests.bench.{name}")
    if is_quick:
        set_quick_sizes(module)
    module.bench(report)
    return f"Missed: {', '.join(missed)}." if missed and not is_quick else None


def set_quick_sizes(module):
    """Set the tiny sizes of a benchmark, and of `rows`, whose tables others use."""
    for benchmark in (module, import_module("tests.bench.rows")):
        for constant, size in benchmark.QUICK_SIZES.items():
            assert hasattr(benchmark, constant), constant
            setattr(benchmark, constant, size)


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main([word for word in words if word != "--quick"], *(word for word in words if word == "--quick")))

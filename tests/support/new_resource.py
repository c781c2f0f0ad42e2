"""Write the skeleton of a new customer resource into this checkout: `make new-resource name=load_tests`.

The skeleton is the working resource `sample_things` below tests/support/skeleton. Its names are replaced, and the few
existing places that a resource needs are completed: models, API modules, permissions, changelog, and the generated
migration, OpenAPI documents and catalogs of texts. Run `git diff` afterwards, then implement the resource.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from babel.messages.pofile import write_po

from tests.support.catalog_problems import read_catalog
from tests.support.skeleton_texts import TRANSLATIONS

ROOT = Path(__file__).parents[2]
SKELETON_FOLDER = Path(__file__).parent / "skeleton"
TASK_BLOCK_PATTERN = re.compile(r"^ *# if task\n(.*?)^ *# end if\n", re.MULTILINE | re.DOTALL)
NAME_PATTERN = re.compile(r"[a-z]+(_[a-z0-9]+)*")


def main():
    parser = argparse.ArgumentParser(prog="make new-resource", description="Write the skeleton of a new resource.")
    parser.add_argument("name", help="name of its modules, in the plural: load_tests")
    parser.add_argument("--singular", help="name of one, for a plural that does not just add an s: policy for policies")
    parser.add_argument("--family", help="family of its permissions and scopes; default: its name")
    parser.add_argument(
        "--group", default="account", help="group of the navigation: compute, storage, network, account"
    )
    parser.add_argument("--task", action="store_true", help="with a task that a worker runs")
    options = parser.parse_args()
    if not NAME_PATTERN.fullmatch(options.name) or (ROOT / "panel" / "models" / f"{options.name}.py").exists():
        parser.error(f"{options.name} is not a new name in snake case.")
    write_resource(options.name, options.singular or options.name.removesuffix("s"), options)


def write_resource(plural, singular, options):
    family = options.family or plural
    names = make_name_variants(plural, singular) | {"sample_family": family, "sample_group": options.group}
    names |= dict(zip(("9001", "9002"), find_positions(options.group), strict=True))
    paths = [write_file(path, names, options) for path in sorted(SKELETON_FOLDER.rglob("*")) if path.is_file()]
    paths = [path for path in paths if path]
    complete_existing_files(plural, singular, family)
    sort_imports = ("check", "--quiet", "--fix", "--select", "I")
    run_module("ruff", *sort_imports, "panel/models/__init__.py")
    run_module("ruff", *sort_imports, "--config", "lint.isort.split-on-trailing-comma = false", *paths)
    run_module("ruff", "format", "--quiet", "--config", "format.skip-magic-trailing-comma = true", *paths)
    with tempfile.TemporaryDirectory() as data_dir:
        run_module("panel.cli", "db", "upgrade", PANEL_DATA_DIR=data_dir)
        run_module("panel.cli", "db", "migrate", f"add {replace_underscores(plural)}", PANEL_DATA_DIR=data_dir)
    run_module("panel.cli", "openapi", "write")
    subprocess.run(["make", "--old-file=installed", "messages"], cwd=ROOT, check=True)
    for language, translations in TRANSLATIONS.items():
        write_translations(
            language, {replace_names(text, names): replace_names(translations[text], names) for text in translations}
        )


def replace_underscores(name):
    return name.replace("_", " ")


def make_name_variants(plural, singular):
    """Return {name in the skeleton: name of the resource}, in snake case, camel case and so on."""
    replacements = {"SampleThing": "".join(part.capitalize() for part in singular.split("_"))}
    for sample, name in (("sample_things", plural), ("sample_thing", singular)):
        replacements |= {
            sample: name,
            sample.replace("_", "-"): name.replace("_", "-"),
            replace_underscores(sample): replace_underscores(name),
            replace_underscores(sample).capitalize(): replace_underscores(name).capitalize(),
            sample.upper(): name.upper(),
        }
    return replacements


def find_positions(group):
    """Return the next free positions in a group of the navigation and in the command palette, as text."""
    from panel.app import CUSTOMER_PAGES

    entries = [entry.position for entry in CUSTOMER_PAGES.entries if entry.group == group]
    if not entries:
        sys.exit(f"There is no group {group} in the navigation of customers.")
    return str(max(entries) + 10), str(CUSTOMER_PAGES.palette_actions[-1].position + 10)


def replace_names(text, names):
    """Replace all names, the longest first."""
    return re.sub("|".join(sorted(map(re.escape, names), key=len, reverse=True)), lambda match: names[match[0]], text)


def write_file(source, names, options):
    """Write a file of the skeleton and return its path; None if the options exclude it."""
    path = ROOT / replace_names(str(source.relative_to(SKELETON_FOLDER)), names)
    is_of_task = "worker" in source.parts or source.stem == "task_cases"
    if "__pycache__" in source.parts or (is_of_task and not options.task):
        return None
    text = TASK_BLOCK_PATTERN.sub(r"\1" if options.task else "", source.read_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(replace_names(text, names).rstrip("\n") + "\n")
    return str(path.relative_to(ROOT)) if path.suffix == ".py" else None


def complete_existing_files(plural, singular, family):
    class_name = make_name_variants(plural, singular)["SampleThing"]
    label, segments = replace_underscores(plural).capitalize(), f"{plural} {singular}".replace("_", "-")
    insert_text("panel/models/__init__.py", r"\Z", f"from panel.models.{plural} import {class_name}\n")
    insert_text("api/__init__.py", r'(?="\n\)\nOPERATOR_MODULES)', f" {plural}")
    from panel.auth.permissions import PATH_SEGMENTS_BY_FAMILY

    if family in PATH_SEGMENTS_BY_FAMILY:
        insert_text("panel/auth/permissions.py", rf'(?<=\n    "{family}": ")', f"{segments} ")
    else:
        insert_text(
            "panel/schemas/constants.py",
            r"(?<=\n)(?=}\n\"\"\"The scope families)",
            f'    "{family}": message("{label}"),\n',
        )
        insert_text(
            "panel/auth/permissions.py",
            r"(?<=\n)(?=}\n\"\"\"The first path segments)",
            f'    "{family}": "{segments}",\n',
        )
    insert_text("CHANGELOG.md", r"(?<=### Added\n\n)", f"- User API and pages: {replace_underscores(plural)}.\n")


def write_translations(language, translations):
    """Complete the catalog of a language, if there is one, by translations of texts that it does not have yet."""
    path = ROOT / "panel" / "translations" / language / "LC_MESSAGES" / "messages.po"
    if not path.exists():
        return
    catalog = read_catalog(path, language)
    for message in catalog:
        if message.id in translations and not message.string:
            message.string = translations[message.id]
    with open(path, "wb") as file:
        write_po(file, catalog, width=120, omit_header=True)


def insert_text(path, pattern, text):
    """Insert the text at the only place of a file that the pattern matches, or at the first one."""
    before = (ROOT / path).read_text()
    after, count = re.subn(pattern, lambda _: text, before, count=1)
    if not count:
        sys.exit(f"{path} has changed: there is no place for {text.strip()}")
    (ROOT / path).write_text(after)


def run_module(module, *arguments, **environment):
    """Run a module of this checkout as a command."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, env=variables, check=True)


if __name__ == "__main__":
    main()

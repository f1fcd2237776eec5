# Everything runs in .venv, which is made when it is missing and brought up to date when requirements.lock has changed.
# Serving needs the first part of that file, everything else all of it.
#   make serve                       the bundled environments on http://127.0.0.1:8080
#   make serve ENV=my_module:MyEnv   your own; several: ENV="first:Env other=second:Env"
#   make serve OPTIONS="--port 9000"

PYTHON ?= python3
BIN := .venv/bin
ENV ?=
OPTIONS ?=
TESTS ?= tests
# One file's tests stay together, because they share a server. JOBS=0 runs all in one process. More than there are cores,
# because tests wait for half of their time.
JOBS ?= 5
# On PostgreSQL beside these. With one, that run ends last and leaves a core idle for a minute.
BESIDE_JOBS ?= 2
# Compiled test files are kept even where a shell forbids it, or every worker compiles all of them: 4 CPU seconds each.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
# What differs by database: SQL of our own, what is written from several threads, what a session leaves, one visit a page.
DIALECTS := $(addprefix tests/, conformance/test_balancers.py conformance/test_cluster.py conformance/test_cluster_pages.py conformance/test_cluster_runs.py conformance/test_database_away.py conformance/test_episodes.py \
  conformance/test_hanging_database.py conformance/test_kill.py conformance/test_processes.py \
  conformance/test_saved_sessions.py environments/cluster environments/database \
  $(addprefix environments/curation/test_, edit.py quarantine.py selection.py splits.py tags.py) \
  environments/admin/test_admin_plans.py \
  $(addprefix environments/tasks/test_, catalog.py flags.py indexes.py split_change.py split_indexes.py sync.py) \
  $(addprefix environments/curation/transfer/test_, importing.py killed.py waiting.py) \
  $(addprefix episodes/figures/, $(addprefix curves/test_, components.py conventions.py curve_points.py growing_curve.py) test_sketch_error.py) \
  $(addprefix episodes/figures/environments/test_, histogram.py environment_figures.py) \
  episodes/api/test_answers.py episodes/dashboard/test_page_plans.py $(addprefix episodes/attempts/test_, components.py no_call.py rule.py) \
  $(addprefix episodes/filtering/test_, filters.py private.py) episodes/browsing episodes/recording \
  episodes/runs $(addprefix episodes/search/test_, index.py snippets.py) episodes/suites/test_standings.py episodes/test_success.py environments/scoring/test_returns.py \
  $(addprefix episodes/transfer/test_, export_plans.py additions.py round_trip.py streaming.py uploads.py) \
  hostile/test_faults.py orsweb/server/test_database_lock.py test_migrations.py) \
  $(filter-out %/test_follower_process.py, $(wildcard tests/episodes/rollups/test_*.py))
comma := ,
space := $() $()

# Installs in a third of the time that pip takes. Where there is no wheel of it, or it finds no index, pip installs.
UV := uv==0.13.9

.PHONY: venv extras serve runserver migrate test test-sqlite test-postgresql test-beside test-trainers cluster lint check audit hostile soak lock \
  wheels bench bench-dashboard screenshots clean

venv: .venv/dev

# An interpreter that was removed, or that finds no packages because its version has changed, is replaced.
$(shell $(BIN)/python -c 'import django' 2> /dev/null || rm -f $(BIN)/python .venv/serve .venv/dev)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "orsweb needs Python 3.11 or newer; name one with make PYTHON=python3.11")'
	$(PYTHON) -m venv --clear .venv
	-$(BIN)/python -m pip install --disable-pip-version-check --quiet --only-binary :all: $(UV)

.venv/serve: requirements.lock | $(BIN)/python
	sed '/^$(DEVELOPMENT)/,$$d' requirements.lock > .venv/serve.txt
	$(call install,.venv/serve.txt)
	touch $@

.venv/dev: requirements.lock .venv/serve
	$(call install,requirements.lock,--compile-bytecode)
	touch $@

# Parts that not every server needs: make extras EXTRAS="otel sso". pip, which takes no hashes from constraints, installs all.
EXTRAS ?= otel sso

extras: .venv/serve
	$(BIN)/python .ci/extras.py $(EXTRAS) > .venv/extras.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --constraint requirements.lock --requirement .venv/extras.txt || $(call install,requirements.lock)

DEVELOPMENT := \# --- development ---
define install
$(BIN)/uv pip install --quiet $(2) --python $(or $(3),$(BIN)/python) --no-deps --require-hashes --requirement $(1) || $(or $(3),$(BIN)/python) -m pip install --disable-pip-version-check --quiet --no-deps --require-hashes --requirement $(1)
endef

# Resolves pyproject.toml again, keeping the versions that still fit; UPGRADE=--upgrade takes the newest.
lock: | $(BIN)/python
	test -x $(BIN)/uv || $(BIN)/python -m pip install --disable-pip-version-check --quiet $(UV)
	$(BIN)/python .ci/lock.py $(UPGRADE)

migrate: .venv/serve
	$(BIN)/python manage.py migrate --verbosity 0

# The server itself migrates a database in var/.
serve: .venv/serve $(if $(DATABASE_URL)$(DATABASE_URL_FILE),migrate)
	@exec $(BIN)/python manage.py serve $(OPTIONS) $(ENV)

# daphne, restarting whenever a file changes: for people who write environments.
runserver: venv migrate
	@ORSWEB_ENVIRONMENTS="$(subst $(space),$(comma),$(strip $(ENV)))" $(BIN)/python manage.py runserver $(OPTIONS)

# On PostgreSQL what differs there of the named tests, else a visit to every page. Both run at once, because many tests
# wait; what the run on PostgreSQL prints comes last.
test: venv
	@$(MAKE) --no-print-directory --keep-going --jobs 2 test-sqlite test-beside; status=$$?; cat $(BESIDE); exit $$status

BESIDE := .venv/test-postgresql.log

test-beside:
	@$(MAKE) --no-print-directory test-postgresql JOBS=$(BESIDE_JOBS) TESTS="$(or $(sort \
	  $(filter $(TESTS:%=%%),$(DIALECTS)) $(filter $(DIALECTS:%=%%),$(TESTS))),tests/orsweb/pages/test_pages.py)" > $(BESIDE) 2>&1

test-sqlite: venv
	ORSWEB_TEST_DATABASE=sqlite $(PYTEST) $(TESTS)

test-postgresql: venv
	ORSWEB_TEST_DATABASE=postgresql $(PYTEST) $(if $(filter tests,$(TESTS)),$(DIALECTS),$(TESTS))

# What docs/trainers says, with the trainers themselves, in an environment of their own: 2.1 GB with torch for a CPU.
# pip chooses the build of torch: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu leaves out CUDA on Linux.
TRAINERS := .venv-trainers

test-trainers: venv $(TRAINERS)/ready
	PYTHONDONTWRITEBYTECODE= $(TRAINERS)/bin/python -m pytest docs/trainers -p no:cacheprovider -W ignore::pytest.PytestConfigWarning

# Environments of trainers that don't fit together with the others.
APART := datasets-3 verifiers
LOCKS := $(patsubst %,docs/trainers/%.lock,requirements $(APART))

$(TRAINERS)/ready: docs/trainers/requirements.in $(LOCKS) | .venv/dev
	$(BIN)/python -m venv $(TRAINERS)
	$(TRAINERS)/bin/python -m pip install --disable-pip-version-check --quiet $$(grep '^torch==' docs/trainers/requirements.in)
	$(call install,docs/trainers/requirements.lock,,$(TRAINERS)/bin/python)
	$(MAKE) --no-print-directory $(APART:%=$(TRAINERS)/%/ready)
	touch $@

$(TRAINERS)/%/ready: docs/trainers/%.lock
	$(BIN)/python -m venv $(TRAINERS)/$*
	$(call install,$<,,$(TRAINERS)/$*/bin/python)
	touch $@

# Sessions on a Ray cluster of several nodes on this machine, the tests of the protocol there, and three servers in network namespaces under play while
# machines, links and the database fail. In an environment of its own: 0.3 GB more than .venv.
CLUSTER := .venv-cluster

cluster: $(CLUSTER)/ready
	ORSWEB_TEST_DATABASE=sqlite $(CLUSTER)/bin/python -m pytest tests/cluster -p no:cacheprovider

$(CLUSTER)/ready: requirements.lock tests/cluster/requirements.lock | .venv/dev
	$(BIN)/python -m venv $(CLUSTER)
	$(call install,requirements.lock,,$(CLUSTER)/bin/python)
	$(call install,tests/cluster/requirements.lock,,$(CLUSTER)/bin/python)
	touch $@

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python manage.py check
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BANDIT) orsweb environments episodes manage.py --exclude $(subst $(space),$(comma),$(AT_RANDOM)) 2> /dev/null
	$(BANDIT) $(AT_RANDOM) --skip B311 2> /dev/null

# What makes tasks, inputs and players at random, which nobody has to be unable to guess. Elsewhere bandit asks why.
AT_RANDOM := environments/builtin environments/checking environments/schemas orsweb/demo
# It prints findings to stdout. To stderr it complains that other rules agree with lines that have a `nosec`.
BANDIT := $(BIN)/bandit --quiet --configfile pyproject.toml --recursive

# The packages orsweb and orsweb-author, in dist/.
wheels: venv
	rm -rf dist
	$(BIN)/python -m hatchling build --target wheel --directory dist
	cd author && ../$(BIN)/python -m hatchling build --target wheel --directory ../dist

check: lint test

# Compares requirements.lock with the published advisories; needs the network.
audit: | $(BIN)/python
	test -x $(BIN)/uv || $(BIN)/python -m pip install --disable-pip-version-check --quiet $(UV)
	$(BIN)/python .ci/audit.py

# The long forms of what `make test` runs in short: half an hour on a machine that does nothing else.
HOSTILE := tests/hostile --ignore tests/hostile/test_soak.py tests/conformance/test_kill.py \
  tests/environments/agents/ors/test_sse.py tests/environments/runtime/test_secret_forms.py tests/browser/test_studies.py --durations 0

hostile: venv
	HOSTILE=long HYPOTHESIS_EXAMPLES=500 $(BIN)/python -m pytest $(HOSTILE)
	HOSTILE=long ORSWEB_TEST_DATABASE=postgresql $(BIN)/python -m pytest tests/hostile/test_faults.py tests/hostile/test_clock.py tests/conformance/test_kill.py

# 200 agents for 20 minutes, and then environments of 300 MB.
soak: venv
	HOSTILE=long $(BIN)/python -m pytest tests/hostile/test_soak.py

# A quarter of an hour; one row: make bench ROWS=sdk. Some rows are measured by name only, see python -m benchmarks -h.
ROWS ?=

bench: venv
	$(BIN)/python -m benchmarks $(OPTIONS) $(ROWS)

# A million episodes, made once in var/ (or in DATABASE_URL), and the server time of every page over them.
bench-dashboard: venv
	$(BIN)/python -m benchmarks dashboard $(OPTIONS)

# The pictures of README.md and docs/, of a record that is played for them: some minutes. One: make screenshots PICTURES=run
PICTURES ?=

screenshots: venv
	$(BIN)/python -m tests.browser.screenshots $(PICTURES)

clean:
	rm -rf .venv $(TRAINERS) $(CLUSTER) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache

# Everything a newcomer types. The first target that needs it sets everything up. After an
# interrupted set-up the next one makes the environment anew from what pip has kept in its cache.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.set-up
CLASSES := $(VENV)/.classes
# There while packages are being installed: pip takes a package that was cut short for a whole one.
INCOMPLETE := $(VENV)/.incomplete
LOG := $(VENV)/set-up.log
LOCKS := requirements/build.txt requirements/lock.txt

# The first Python on the PATH that Spark 4.0 and the lock know; name another with PYTHON=.
PYTHON ?= $(shell for p in python3 python3.12 python3.11 python3.10 python3.13; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' \
	2>/dev/null && { echo "$$p"; exit; }; done; echo python3)

# pip: quiet about itself, and no package that the locks do not name takes part.
PIP := $(PY) -m pip --disable-pip-version-check --no-input
say = @echo "tallystick: $(1)"

# Tests start hundreds of processes: each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

# Their JVMs live for seconds: the optimising compiler would cost more than it saves.
test test-spark test-kafka test-kafka-parts test-end-to-end test-mysqld: export JDK_JAVA_OPTIONS := -XX:TieredStopAtLevel=1

.PHONY: help setup preflight demo check test test-fast test-spark test-kafka test-mysqld \
	test-kafka-parts test-end-to-end test-long a-day legal bench bench-growth bench-others \
	chaos mutate lint types lock lock-others clean

help:
	@echo "make demo [FAULT=name] [NEGATIVE=name] [SCENARIO=name] [SEED=number]"
	@echo "              the main job, end to end"
	@echo "make check    lint, types and the core's tests, in about three minutes"
	@echo "make test     all tests, with real Kafka, Spark and MySQL"
	@echo "make a-day    a fleet's day, on a quiet machine: alerted once, in time, the page right"
	@echo "make legal [LEGAL_SECONDS=number]"
	@echo "              what a DBA may do, for three minutes, on a quiet machine: nothing is accused"
	@echo "make bench    the benchmarks; make bench-growth: what changes as everything grows, with plots"
	@echo "make bench-others"
	@echo "              the same checks in other stream processors, which are installed for it"
	@echo "make chaos [MINUTES=number] [SEED=number] [LAB=yes]"
	@echo "              real processes killed and stopped, for an hour; nothing may change by it"
	@echo "make mutate [SAMPLE=number] [SEED=number] [MINUTES=number] [ONLY=path] [NEAR=yes]"
	@echo "              changes of the code that no test notices; for a night"
	@echo "make setup    what the others do first: .venv, locked packages, verified jars"
	@echo "make lint types lock clean"

demo: preflight
	@$(VENV)/bin/tallystick demo \
		$(if $(FAULT),--fault '$(FAULT)') $(if $(NEGATIVE),--negative '$(NEGATIVE)') \
		$(if $(SCENARIO),--scenario '$(SCENARIO)') $(if $(SEED),--seed '$(SEED)')

# What to run while you work; the test of limits plays all others' histories again, in `make test`.
check: lint types
	$(PY) -m pytest -q -n auto --dist worksteal --ignore tests/coordinates/test_limits.py \
		tests/coordinates tests/real_journals tests/test_imports.py tests/test_tidy.py

# The slowest tests of each stage are printed: that is where its time can be saved.
SLOWEST := --durations=8 --durations-min=5

# Apart from each other: Spark's settings are those of the first session of a process. Tests with
# servers wait a lot, so two parts go on at a time, in this order: MySQL's tests wait most, so others
# use the processors meanwhile. What a part prints comes when it ends.
test: preflight
	$(call say,two parts of the tests go on side by side; each is shown when it has ended)
	@$(MAKE) --no-print-directory -j2 -k -O BESIDE=yes \
		test-mysqld test-fast test-kafka-parts test-end-to-end test-spark

test-fast: $(STAMP)
	$(if $(BESIDE),nice -n 10) $(PY) -m pytest -q $(SLOWEST) -n auto --dist worksteal -m "not spark and not broker and not mysqld"

# Importing all modules takes each process as long as some tests: a stage imports those alone that
# name its mark. tests/conftest.py refuses a test that would be overlooked.
naming = $(shell grep -rl '$(1)' tests --include='test_*.py' | sort)

# One process: a second one would start a second JVM for two of the four tests.
test-spark: preflight
	$(PY) -m pytest -q $(SLOWEST) -m "spark and not broker and not mysqld" \
		$(call naming,spark)

# What starts servers runs in two processes, each with servers of its own: their tests wait a lot.
KAFKA = $(PY) -m pytest -q $(SLOWEST) -n 2 --dist worksteal -m "broker and not mysqld and not long"

test-kafka: preflight
	$(KAFKA) $(call naming,broker)

# The same in two halves, for `make test`.
test-kafka-parts: preflight
	$(KAFKA) $(filter-out tests/end_to_end/%,$(call naming,broker))

test-end-to-end: preflight
	$(KAFKA) $(filter tests/end_to_end/%,$(call naming,broker))

# Real MySQL servers; the tests are skipped, and say why, where those cannot run. The tests of a
# module go on in order on one lab; tests/lab is first and takes longest.
test-mysqld: $(STAMP)
	$(PY) -m pytest -q $(SLOWEST) -n 2 --dist loadfile --no-loadscope-reorder -m "mysqld and not long" \
		$(call naming,mysqld)

# What takes a minute or more with real servers and is whole in no other target.
test-long: preflight
	$(PY) -m pytest -q $(SLOWEST) -n 2 --dist worksteal -m long \
		$(filter-out tests/lab/test_a_day.py tests/lab/test_legal_disturbances.py,$(call naming,mark.long))

# Real servers, tails, the audit with page and alerts, and a browser; in time on a quiet machine.
# What took how long is in measured.json beside the pictures.
a-day: preflight
	@mkdir -p .tallystick
	$(PY) -m pytest -q tests/lab/test_a_day.py --basetemp=.tallystick/a-day

# What a DBA may do on an ordinary day, again and again; `make test` does each of it once.
LEGAL_SECONDS ?= 180

legal: preflight
	LEGAL_SECONDS='$(LEGAL_SECONDS)' $(PY) -m pytest -q tests/lab/test_legal_disturbances.py

bench: preflight
	@$(PY) -m benchmarks

bench-others: preflight
	@$(PY) -m benchmarks.others

# Draws docs/performance/ anew.
bench-growth: preflight
	@$(PY) -m benchmarks.growth_page

MINUTES_OF_CHAOS := $(or $(MINUTES),60)

chaos: preflight
	@$(VENV)/bin/tallystick chaos --minutes '$(MINUTES_OF_CHAOS)' $(if $(SEED),--seed '$(SEED)') $(if $(LAB),--lab)

# Goes on where it was interrupted, as long as sample and seed are the same.
mutate: $(STAMP)
	@$(PY) -m tests.mutations \
		$(if $(SAMPLE),--sample '$(SAMPLE)') $(if $(SEED),--seed '$(SEED)') \
		$(if $(MINUTES),--minutes '$(MINUTES)') $(if $(ONLY),--only '$(ONLY)') \
		$(if $(NEAR),--near)

lint: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(STAMP)
	$(PY) -m mypy

setup: $(CLASSES)
	$(call say,set up in $(VENV))

preflight: $(CLASSES)
	@$(PY) -m tallystick.deploy.preflight

$(STAMP): $(LOCKS) pyproject.toml deploy/jars.sha256
	@command -v '$(PYTHON)' >/dev/null || { \
		echo "tallystick: There is no $(PYTHON). To fix: apt-get install python3 python3-venv" >&2; \
		exit 2; }
	@'$(PYTHON)' deploy/preflight.py --setup
	$(call say,1/5 virtual environment in $(VENV))
	@rm -f $@
	@# One that was cut short, or made by a Python that has gone, is made anew.
	@[ ! -e $(INCOMPLETE) ] && $(PY) -c 'import pip' 2>/dev/null \
		|| '$(PYTHON)' -m venv --clear $(VENV)
	@touch $(INCOMPLETE)
	@$(PIP) install --quiet --require-hashes -r requirements/build.txt > $(LOG) 2>&1 \
		|| { tail -n 12 $(LOG) >&2; exit 2; }
	$(call say,2/5 locked packages (the first time about 700 MB and some minutes))
	@$(PIP) install --progress-bar off --no-build-isolation --require-hashes \
		-r requirements/lock.txt 2>&1 | tee $(LOG) | sed -un \
		-e 's/^ *Downloading \([^ ]*\) (\([0-9]\{2,\}\.[0-9]* MB\)).*/  fetching \1, \2/p' \
		-e 's/^ *Building wheel for \([^ ]*\) .*: started$$/  building \1/p' \
		-e 's/^Installing collected packages.*/  installing/p' \
		|| { grep -i '^ *error' $(LOG) | tail -n 6 >&2; \
		echo "tallystick: the packages cannot be installed; all that pip said is in $(LOG)." >&2; \
		exit 2; }
	$(call say,3/5 the command tallystick)
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable . > $(LOG) 2>&1 \
		|| { tail -n 12 $(LOG) >&2; exit 2; }
	@rm $(INCOMPLETE)
	$(call say,4/5 jars)
	@$(PY) -m tallystick.deploy.jars
	@touch $@

# Apart: nothing needs them, and they are made again alone.
$(CLASSES): $(STAMP) tallystick/runs/class_archives.py
	$(call say,5/5 archives of the classes that Spark and the broker start with, in about a minute)
	@$(PY) -m tallystick.runs.class_archives
	@touch $@

# On the oldest Python, so that the lock has its backports; newer ones ignore them.
LOCK_PYTHON ?= python3.10
LOCK_VENV := $(VENV)-lock
COMPILE = CUSTOM_COMPILE_COMMAND="make $@" $(LOCK_VENV)/bin/pip-compile --quiet --upgrade \
	--generate-hashes --allow-unsafe --strip-extras --annotation-style=line --no-emit-options \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

lock:
	@'$(LOCK_PYTHON)' -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install --quiet pip-tools tomli
	@$(COMPILE) -o requirements/build.txt requirements/build.in
	@$(LOCK_VENV)/bin/python -c 'import tomli; print(*tomli.load(open("pyproject.toml", "rb"))\
	["dependency-groups"]["dev"], sep="\n")' \
		| $(COMPILE) --extra mysql --extra serve --extra stream -o requirements/lock.txt pyproject.toml -
	@rm -rf $(LOCK_VENV)

# Quix Streams needs 3.11, Bytewax has no wheels above 3.12.
lock-others: LOCK_PYTHON = python3.11
lock-others:
	@'$(LOCK_PYTHON)' -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install --quiet pip-tools
	@for name in requirements/bench_*.in; do $(COMPILE) -o "$${name%.in}.txt" "$$name"; done
	@rm -rf $(LOCK_VENV)

clean:
	rm -rf .tallystick build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		spark-warehouse metastore_db derby.log artifacts
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

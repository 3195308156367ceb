"""Where Triton comes from, what of it stays behind, and how rows are cut: all without a GPU."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lnlib
from lnlib import triton_kernel
from lnlib.cpp_kernel import library
from lnlib.triton_kernel import runtime, tiles

ROOT = Path(__file__).parents[2]

needs_triton = pytest.mark.skipif(runtime.why_not() is not None, reason="Triton is not installed")


def run(tmp_path: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` from a file, where Triton can read it, in a process that warnings would end."""
    script = tmp_path / "script.py"
    script.write_text(code, encoding="utf8")
    kept = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    paths = f"{ROOT}{os.pathsep}{kept.get('PYTHONPATH', '')}"
    own = {"PYTHONPATH": paths, "TRITON_CACHE_DIR": str(tmp_path / "cache"), **environment}
    return subprocess.run(
        [sys.executable, "-W", "error", script], env=kept | own, capture_output=True, text=True
    )


# The interpreter beside the compiler

NO_TRACE = """
import os, sys
import torch, triton, triton.language as tl
import lnlib
from lnlib import triton_kernel
from lnlib.triton_kernel import runtime

def of_triton():
    names = [n for n in sys.modules if n.split(".")[0] == "triton" or n.endswith(".kernels")]
    return {name: sys.modules[name] for name in names}

def is_right():
    x = torch.arange(21.0).reshape(3, 7) ** 2
    y = lnlib.layer_norm(x, (7,), backend="triton")
    return torch.allclose(y, torch.nn.functional.layer_norm(x, (7,)), rtol=0, atol=1e-6)

@triton.jit
def twice(x_ptr):
    tl.store(x_ptr, 2 * tl.load(x_ptr))

def compile(kernel, **parameters):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    constants = {name: value for name, value in parameters.items() if not isinstance(value, str)}
    signature = {n: "constexpr" if n in constants else v for n, v in parameters.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    return len(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"])

modules, variables, named = of_triton(), dict(os.environ), set(vars(triton_kernel))
assert is_right()
now = of_triton()  # and what Triton's compiled part imported at its first call, of the same copy
assert modules.items() <= now.items()
private = runtime.triton_for(torch.device("cpu"))
assert not {private, private.language, private.runtime, private.runtime.jit} & set(now.values())
assert dict(os.environ) == variables
assert set(vars(triton_kernel)) == named
assert runtime.triton_for(torch.device("cpu")) is not triton

@triton.jit
def thrice(x_ptr):
    tl.store(x_ptr, 3 * tl.load(x_ptr))

assert type(twice) is type(thrice)
assert type(thrice) is triton.JITFunction
from lnlib.triton_kernel import kernels
assert type(kernels.sum_partials_kernel) is triton.JITFunction
assert compile(thrice, x_ptr="*fp32")
bounds = dict(H=7, BLOCK_B=16, BLOCK_H=16, STAGES=3)
pointers = dict.fromkeys(("dweight_partials_ptr", "dweight_ptr"), "*fp32")
without = dict.fromkeys(("dbias_partials_ptr", "dbias_ptr"))
order = kernels.sum_partials_kernel.arg_names
parameters = {**pointers, **without, "programs": "i32", **bounds}
assert compile(kernels.sum_partials_kernel, **{name: parameters[name] for name in order})
assert is_right()
assert sys.modules["lnlib.triton_kernel.kernels"] is kernels
assert kernels.triton is triton
assert triton_kernel.kernels is kernels
print("right")
"""


@needs_triton
@pytest.mark.parametrize("variable", [None, "0"])
def test_the_interpreter_leaves_triton_the_modules_and_the_environment_as_they_were(
    variable, tmp_path
):
    environment = {} if variable is None else {"TRITON_INTERPRET": variable}
    done = run(tmp_path, NO_TRACE, **environment)
    assert done.stdout == "right\n", done.stderr[-2000:]


NO_COPY = """
import sys
import torch, triton
import lnlib
from lnlib.triton_kernel import runtime

runtime._private_triton = None  # as if it no longer worked
x = torch.arange(21.0).reshape(3, 7) ** 2
y = lnlib.layer_norm(x, (7,), backend="triton")
assert torch.allclose(y, torch.nn.functional.layer_norm(x, (7,)), rtol=0, atol=1e-6)
states = [lnlib.LayerNormLSTM(5, 7, backend=name) for name in ("triton", "reference")]
states[1].load_state_dict(states[0].state_dict())
first, second = (network(torch.ones(4, 3, 5))[0] for network in states)
assert torch.allclose(first, second, rtol=0, atol=1e-5)
assert runtime.triton_for(x.device) is triton
print("right")
"""


@needs_triton
def test_a_triton_that_interprets_from_the_start_needs_no_copy(tmp_path):
    """What the API page says to do, should the copy no longer work."""
    done = run(tmp_path, NO_COPY, TRITON_INTERPRET="1")
    assert done.stdout == "right\n", done.stderr[-2000:]
    assert run(tmp_path, NO_COPY).stdout == ""  # without the variable the copy is what works


KERNELS_FIRST = """
import torch
from lnlib.triton_kernel import kernels, runtime
import lnlib.triton_kernel

runtime.kernels(torch.device("cpu"))
assert lnlib.triton_kernel.kernels is kernels
import lnlib.triton_kernel.kernels as again
assert again is kernels
assert type(kernels.sum_partials_kernel).__name__ == "JITFunction"
assert runtime.kernels(torch.device("cuda")) is kernels
print("right")
"""


@needs_triton
def test_whoever_imported_the_kernels_before_keeps_the_compiled_ones(tmp_path):
    done = run(tmp_path, KERNELS_FIRST)
    assert done.stdout == "right\n", done.stderr[-2000:]


@needs_triton
def test_on_a_cpu_a_kernel_of_ones_own_is_interpreted_with_the_same_triton():
    triton = runtime.triton_for(torch.device("cpu"))
    kernels = runtime.kernels(torch.device("cpu"))
    assert triton is kernels.triton
    assert type(kernels.layer_norm_fwd_kernel).__name__ == "InterpretedFunction"
    assert runtime.kernels(torch.device("cpu")) is kernels


# What cannot be

IMPORTED = """
import sys
import torch, lnlib
lnlib.layer_norm(torch.ones(2, 3), (3,))
print(*[name for name in sys.modules if name.split(".")[0] == "triton"])
"""


def test_importing_and_using_lnlib_imports_no_triton(tmp_path):
    done = run(tmp_path, IMPORTED)
    assert (done.stdout, done.stderr) == ("\n", "")


MISSING = """
import sys
sys.modules["triton"] = None
import torch, lnlib
x = torch.arange(6.0).reshape(2, 3)
print(lnlib.layer_norm(x, (3,)).shape)
try:
    lnlib.layer_norm(x, (3,), backend="triton")
except ImportError as error:
    print(error)
"""


def test_without_triton_the_rest_works_and_the_backend_says_what_to_install(tmp_path):
    done = run(tmp_path, MISSING)
    shape, message = done.stdout.splitlines()
    assert shape == "torch.Size([2, 3])"
    assert 'backend="triton" is not available' in message
    assert "pip install triton" in message


@pytest.fixture
def asked_anew():
    runtime.why_not.cache_clear()
    yield
    runtime.why_not.cache_clear()


@needs_triton
@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize("version", ["2.3.1", "3.5.1"])
def test_an_old_triton_is_refused_with_its_version_and_the_one_needed(version, monkeypatch):
    import triton

    monkeypatch.setattr(triton, "__version__", version)
    with pytest.raises(ImportError, match=rf"Triton {version} is too old, 3\.6 or newer"):
        lnlib.layer_norm(torch.ones(2, 3), (3,), backend="triton")


@needs_triton
@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize("version", ["3.6.0", "3.10.0", "4.0.0+git1234"])
def test_a_new_enough_triton_is_not_refused(version, monkeypatch):
    import triton

    monkeypatch.setattr(triton, "__version__", version)
    assert runtime.why_not() is None


@needs_triton
def test_a_device_that_is_neither_gpu_nor_cpu_is_refused_with_what_to_use_instead():
    x = torch.ones(2, 3, device="meta")
    with pytest.raises(NotImplementedError, match='got a tensor on meta; use backend="reference"'):
        triton_kernel.PASSES.forward(x, None, None, 1e-5)


# Tiles

LENGTHS = sorted({max(1, 2**k + d) for k in range(19) for d in (-1, 0, 1)} | {769, 1000, 5000})


@pytest.mark.parametrize("choose", [tiles.forward, tiles.backward])
def test_the_length_of_a_row_and_the_type_alone_decide_the_tile(choose):
    assert list(inspect.signature(choose).parameters) == ["H", "itemsize"]


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("choose", [tiles.forward, tiles.backward])
def test_a_tile_holds_whole_rows_in_powers_of_two_or_there_is_none(choose, itemsize):
    for H in LENGTHS:
        tile = choose(H, itemsize)
        most = {tiles.forward: tiles.FORWARD, tiles.backward: tiles.BACKWARD}[choose]
        most = most * 4 // itemsize
        assert (tile is None) == (most < H)
        if tile is not None:
            assert H <= tile.features < max(2 * H, 2)
            assert tile.rows * tile.features <= most
            assert_of_powers_of_two(tile)


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("tile_of", [tiles.long, tiles.columns, tiles.partials])
@pytest.mark.parametrize("kind", [1, 0])
def test_the_other_tiles_are_of_powers_of_two_too(tile_of, kind, itemsize):
    assert_of_powers_of_two(tile_of(itemsize, kind))


def assert_of_powers_of_two(tile: tiles.Tile) -> None:
    assert all(number & (number - 1) == 0 < number for number in tile)
    assert tile.warps <= 16  # 512 threads: what a program may have everywhere


@pytest.mark.parametrize("itemsize", [4, 8])
def test_a_row_that_is_walked_along_is_at_least_a_tile_long(itemsize):
    longest = [
        max(H for H in range(1, 20000) if choose(H, itemsize) is not None)
        for choose in (tiles.forward, tiles.backward)
    ]
    assert (
        tiles.long(itemsize, is_aligned=True).features <= min(longest) + 1
    )  # its first tile is read unmasked


@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_unit_is_the_largest_power_of_two_in_a_stride_up_to_16_bytes(itemsize):
    powers = [2**k for k in range(4) if 2**k * itemsize <= 16]
    for stride in range(200):
        largest = max(power for power in powers if stride % power == 0)
        assert tiles.unit(stride, itemsize) == largest


@pytest.mark.parametrize("H", [1, 7, 64, 769, 4096, 8192])
@pytest.mark.parametrize("multiprocessors", [2, 132])
def test_programs_are_no_more_than_there_are_tiles_or_run_at_once(H, multiprocessors):
    tile = tiles.backward(H, 4)
    counts = [tiles.programs(B, tile, multiprocessors) for B in range(1, 20000, 7)]
    for B, programs in zip(range(1, 20000, 7), counts, strict=True):
        assert 1 <= programs <= -(-B // tile.rows)
        assert programs <= multiprocessors * 16 // tile.warps
    assert counts == sorted(counts)


@pytest.fixture
def driver_asked_anew():
    for forget in (runtime.why_not_on_gpu.cache_clear, library._said.clear):
        forget()
    yield
    for forget in (runtime.why_not_on_gpu.cache_clear, library._said.clear):
        forget()


@needs_triton
@pytest.mark.usefixtures("driver_asked_anew")
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a driver")
def test_without_a_driver_auto_says_so_once_and_takes_the_reference(caplog):
    assert [runtime.runs_on_gpu() for _ in range(2)] == [False, False]
    (message,) = caplog.messages
    assert "takes no Triton on the GPU, so is slower: Triton has no driver" in message


@needs_triton
def test_with_a_driver_auto_takes_the_kernels_in_graphs_too(monkeypatch):
    monkeypatch.setattr(runtime, "why_not_on_gpu", lambda: None)
    assert runtime.runs_on_gpu()
    choose = torch.compile(
        lambda x: 2 * x if runtime.runs_on_gpu() else 3 * x, backend="eager", fullgraph=True
    )
    assert choose(torch.ones(1)) == 2


def test_a_stand_in_for_triton_does_not_keep_lnlib_from_being_imported(tmp_path):
    code = "import sys, types; sys.modules['triton'] = types.ModuleType('triton')"
    done = run(
        tmp_path, f"{code}; sys.modules['triton'].__spec__ = None; import lnlib; print('ok')"
    )
    assert done.stdout == "ok\n", done.stderr[-2000:]

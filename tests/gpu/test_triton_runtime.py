"""Where Triton comes from, what of it stays behind, and how rows are cut: all without a GPU."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import lnlib
from lnlib.cpp_kernel import library
from lnlib.triton_kernel import PASSES, launch, runtime, tiles

ROOT = Path(lnlib.__file__).parent.parent

needs_triton = pytest.mark.skipif(runtime.why_not() is not None, reason="Triton is not installed")


def run(tmp_path: Path, code: str, **environment: str) -> str:
    """Return what ``code`` prints, from a file that Triton can read; a warning would end it."""
    script = tmp_path / "script.py"
    script.write_text(code, encoding="utf8")
    kept = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    paths = f"{ROOT}{os.pathsep}{kept.get('PYTHONPATH', '')}"
    own = {"PYTHONPATH": paths, "TRITON_CACHE_DIR": str(tmp_path / "cache"), **environment}
    command = [sys.executable, "-W", "error", script]
    done = subprocess.run(command, env=kept | own, capture_output=True, text=True)
    return done.stdout or done.stderr[-2000:]


# The interpreter beside the compiler

IS_RIGHT = """
import os, sys
import torch, triton, triton.language as tl
import lnlib
from lnlib import triton_kernel
from lnlib.triton_kernel import runtime

def is_right():
    x = torch.arange(21.0).reshape(3, 7) ** 2
    y = lnlib.layer_norm(x, (7,), backend="triton")
    return torch.allclose(y, torch.nn.functional.layer_norm(x, (7,)), rtol=0, atol=1e-6)

def of_triton():
    names = [n for n in sys.modules if n.split(".")[0] == "triton" or n.endswith(".kernels")]
    return {name: sys.modules[name] for name in names}

"""
NO_TRACE = f"""{IS_RIGHT}
@triton.jit
def twice(x_ptr):
    tl.store(x_ptr, 2 * tl.load(x_ptr))

if os.environ.get("TRITON_INTERPRET"):  # once with the kernels there before, once without
    from lnlib.triton_kernel import kernels
modules, variables, named = of_triton(), dict(os.environ), set(vars(triton_kernel))
assert is_right()
now = of_triton()  # and what Triton's compiled part imported at its first call, of the same copy
assert modules.items() <= now.items()
private = runtime.triton_for(torch.device("cpu"))
assert not {{private, private.language, private.runtime, private.runtime.jit}} & set(now.values())
assert dict(os.environ) == variables
assert set(vars(triton_kernel)) == named

@triton.jit
def thrice(x_ptr):
    tl.store(x_ptr, 3 * tl.load(x_ptr))

assert type(twice) is type(thrice) is triton.JITFunction
source = triton.compiler.ASTSource(fn=thrice, signature={{"x_ptr": "*fp32"}}, constexprs={{}})
target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
assert triton.compile(source, target=target).asm["ptx"]
from lnlib.triton_kernel import kernels
assert runtime.kernels(torch.device("cuda")) is kernels is triton_kernel.kernels
assert kernels.triton is triton
assert type(kernels.sum_partials_kernel) is triton.JITFunction
assert is_right()
print("right")
"""
NO_COPY = f"""{IS_RIGHT}
runtime._interpreted = None  # as if it no longer worked
assert is_right()
states = [lnlib.LayerNormLSTM(5, 7, backend=name) for name in ("triton", "reference")]
states[1].load_state_dict(states[0].state_dict())
first, second = (network(torch.ones(4, 3, 5))[0] for network in states)
assert torch.allclose(first, second, rtol=0, atol=1e-5)
assert runtime.triton_for(torch.device("cpu")) is triton
print("right")
"""


@needs_triton
@pytest.mark.parametrize("variable", ["", "0"])
def test_the_interpreter_leaves_triton_the_modules_and_the_environment_as_they_were(
    variable, tmp_path
):
    environment = {"TRITON_INTERPRET": variable} if variable else {}
    assert run(tmp_path, NO_TRACE, **environment) == "right\n"


@needs_triton
def test_a_triton_that_interprets_from_the_start_needs_no_copy(tmp_path):
    """What the API page says to do, should the copy no longer work."""
    assert run(tmp_path, NO_COPY, TRITON_INTERPRET="1") == "right\n"


# What cannot be

WITHOUT = {
    "nobody who imports or uses lnlib imports it": """
import torch, lnlib
lnlib.layer_norm(torch.ones(2, 3), (3,))
assert not [name for name in sys.modules if name.split(".")[0] == "triton"]
""",
    "where it is missing, the backend says what to install": """
sys.modules["triton"] = None
import torch, lnlib
lnlib.layer_norm(torch.ones(2, 3), (3,))
try:
    lnlib.layer_norm(torch.ones(2, 3), (3,), backend="triton")
except ImportError as error:
    assert 'backend="triton" is not available' in str(error)
    assert "pip install triton" in str(error)
else:
    raise AssertionError
""",
    "a stand-in for it does no harm": """
sys.modules["triton"] = types.ModuleType("triton")
sys.modules["triton"].__spec__ = None
import lnlib
""",
}


@pytest.mark.parametrize("case", WITHOUT)
def test_lnlib_works_without_triton(case, tmp_path):
    assert run(tmp_path, f"import sys, types{WITHOUT[case]}print('right')") == "right\n"


@pytest.fixture
def asked_anew():
    forget = runtime.why_not.cache_clear, runtime.why_not_on_gpu.cache_clear, library._said.clear
    for each in forget:
        each()
    yield
    for each in forget:
        each()


@needs_triton
@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize("version", ["2.3.1", "3.5.1", "3.6.0", "3.10.0", "4.0.0+git1234"])
def test_a_triton_older_than_3_6_is_refused(version, monkeypatch):
    import triton

    monkeypatch.setattr(triton, "__version__", version)
    why = f"Triton {version} is too old, 3.6 or newer is needed"
    assert (why in (runtime.why_not() or "")) == (version in ("2.3.1", "3.5.1"))


@needs_triton
def test_a_device_that_is_neither_gpu_nor_cpu_is_refused_with_what_to_use_instead():
    x = torch.ones(2, 3, device="meta")
    with pytest.raises(NotImplementedError, match='got a tensor on meta; use backend="reference"'):
        PASSES.forward(x, None, None, 1e-5)


@needs_triton
def test_on_a_cpu_numpy_is_needed_too(monkeypatch):
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="Triton's interpreter needs NumPy: pip install numpy"):
        runtime.check(torch.device("cpu"))


@needs_triton
@pytest.mark.usefixtures("asked_anew")
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a driver")
def test_without_a_driver_auto_says_so_once_and_takes_the_reference(caplog):
    assert [runtime.runs_on_gpu() for _ in range(2)] == [False, False]
    (message,) = caplog.messages
    assert "takes no Triton on the GPU, so is slower: Triton has no driver" in message


@needs_triton
def test_in_a_graph_auto_takes_the_kernels_and_asks_for_no_driver(monkeypatch):
    choose = torch.compile(
        lambda x: 2 * x if runtime.runs_on_gpu() else 3 * x, backend="eager", fullgraph=True
    )
    assert choose(torch.ones(1)) == 2
    monkeypatch.setattr(runtime, "why_not_on_gpu", lambda: None)
    assert runtime.runs_on_gpu()


# Tiles

LENGTHS = sorted({max(1, 2**k + d) for k in range(19) for d in (-1, 0, 1)} | {769, 1000, 5000})


def assert_of_powers_of_two(tile: tiles.Tile) -> None:
    assert all(number & (number - 1) == 0 < number for number in tile)
    assert tile.warps <= 16  # 512 threads: what a program may have everywhere


@pytest.mark.parametrize("itemsize", [4, 8])
def test_a_tile_holds_whole_rows_in_powers_of_two_or_there_is_none(itemsize):
    for tile_of, longest in ((tiles.forward, tiles.FORWARD), (tiles.backward, tiles.BACKWARD)):
        most = longest * 4 // itemsize
        for H in LENGTHS:
            tile = tile_of(H, itemsize)
            assert (tile is None) == (most < H)
            if tile is not None:
                assert H <= tile.features < max(2 * H, 2)
                assert tile.rows * tile.features <= most
                assert_of_powers_of_two(tile)
    for kind in (1, 0):
        for tile_of in (tiles.long, tiles.columns, tiles.partials):
            assert_of_powers_of_two(tile_of(itemsize, kind))
        longest_held = min(tiles.FORWARD, tiles.BACKWARD) * 4 // itemsize
        assert tiles.long(itemsize, kind).features <= longest_held + 1  # the first is not masked


@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_unit_is_the_largest_power_of_two_in_a_stride_up_to_16_bytes(itemsize):
    powers = [2**k for k in range(4) if 2**k * itemsize <= 16]
    for stride in range(200):
        largest = max(power for power in powers if stride % power == 0)
        assert tiles.unit(stride, itemsize) == largest


@pytest.mark.parametrize("H", [1, 64, 769, 8192])
def test_programs_are_no_more_than_there_are_tiles_or_run_at_once(H):
    tile = tiles.backward(H, 4)
    for multiprocessors in (2, 132):
        sizes = range(1, 20000, 7)
        counts = [tiles.programs(B, tile, multiprocessors) for B in sizes]
        for B, programs in zip(sizes, counts, strict=True):
            assert 1 <= programs <= -(-B // tile.rows)
            assert programs <= multiprocessors * 16 // tile.warps
            assert programs <= max(multiprocessors, B // 32)  # their sums stay small beside x
        assert counts == sorted(counts)


# A launch, as Python sees it.


class Compiled:
    """A kernel that notes how it is launched."""

    function, packed_metadata = "function", "metadata"

    def __init__(self, said: list[Any]) -> None:
        self.said = said

    def __getitem__(self, grid: tuple[int, int, int]) -> Any:
        return lambda *given, **_: self.said.append(("by Triton", grid, given)) or self

    def run(self, *given: Any) -> None:
        self.said.append(("at once", given))


@needs_triton
def test_after_the_first_launch_addresses_go_straight_to_the_driver(monkeypatch):
    from triton import knobs
    from triton.runtime import driver

    said: list[Any] = []
    module = SimpleNamespace(a_kernel=Compiled(said))
    monkeypatch.setattr(runtime, "load", lambda *_: module)
    active = SimpleNamespace(get_current_stream=lambda gpu: f"stream of {gpu}")
    monkeypatch.setattr(type(driver), "active", active)
    launcher, gpu = launch.Launcher("a_kernel", tiles.Tile(1, 8, 4), 7), torch.device("cuda", 1)
    x, grid = torch.zeros(8), (5, 1, 1)
    shifted, half = x[1:], x.half()
    at_once = *grid, "stream of 1", "function", "metadata", None, None, None

    def launched(*operands: Any) -> Any:
        said.clear()
        launcher(gpu, grid, *operands)
        return said.pop()

    for given in ((x, None, 3), (shifted, None, 3), (half, None, 3), (x, x, 3), (x, None, 2**31)):
        how, _, operands = launched(*given)
        assert (how, operands) == ("by Triton", (*given, 7))  # another kind, to be compiled
        addresses = [each.data_ptr() if isinstance(each, torch.Tensor) else each for each in given]
        assert launched(*given) == ("at once", (*at_once, *addresses, 7))
    monkeypatch.setattr(knobs.runtime, "launch_exit_hook", lambda _: None)  # a profiler
    assert launched(x, None, 3)[:2] == ("by Triton", grid)

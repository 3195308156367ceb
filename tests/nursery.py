"""A process that has imported a module and done nothing with it: its children each run one case.

So what ends a process, or happens once in one, can be tested without importing PyTorch each time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Nursery:
    """The process, and the pipe to it."""

    def __init__(self, module: str) -> None:
        path = os.pathsep.join([str(HERE), *sys.path])
        self.process = subprocess.Popen(
            [sys.executable, __file__, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )

    def run(self, function: str, *arguments: Any, seconds: float = 120, **env: str) -> str:
        """Call a function of the module in a new process, and fail unless it returns.

        Returns: what it printed, to both streams.

        Args:
            function: its name.
            arguments: what JSON can hold.
            seconds: after which it counts as hanging.
            env: the environment variables that are to be other than here.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        json.dump([function, arguments, env, seconds], self.process.stdin)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        status, said = json.loads(self.process.stdout.readline())
        assert status == 0, f"{function}{arguments} ended with {status}:\n{said}"
        return str(said)

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def serve(module: str) -> None:
    """Answer requests until there are no more."""
    cases = import_module(module)
    for line in sys.stdin:
        function, arguments, env, seconds = json.loads(line)
        with tempfile.TemporaryFile("w+") as said:
            child = os.fork()
            if child == 0:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                os.environ.update(env)
                os._exit(_status(cases, function, arguments))
            status = _wait(child, seconds)
            said.seek(0)
            print(json.dumps([status, said.read()[-4000:]]), flush=True)


def _status(cases: Any, function: str, arguments: list[Any]) -> int:
    try:
        cases.begin()
        getattr(cases, function)(*arguments)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _wait(child: int, seconds: float) -> int | str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return f"a timeout after {seconds} s"


if __name__ == "__main__":
    serve(sys.argv[1])

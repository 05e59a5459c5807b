"""training.compile: the same training by torch.compile."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from f2stnet.experiments.bench.rivals import can_compile
from training.test_fit import small

TRAIN = """
import json, sys
from pathlib import Path
from f2stnet.training import fit
from f2stnet.training.trainer import Trainer
from small import waves
from training.test_fit import small

made, begin = [], Trainer.__init__
def note(self, *given):
    begin(self, *given)
    made.append(self.compiled is not None)
Trainer.__init__ = note
runs = [fit(waves(), small("stid", epochs=2, compile=on), Path(sys.argv[1]) / str(on)) for on in (False, True)]
print(json.dumps({"compiled": made, "mae": [run.metrics["test"]["mae"] for run in runs]}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not can_compile(torch.device("cpu")), reason="needs a C++ compiler")
def test_a_compiled_run_learns_what_an_uncompiled_one_does(tmp_path: Path) -> None:
    """In a process of its own: the compiler cannot read through the shape checks that tests wrap around functions."""
    here = Path(__file__).resolve().parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", TRAIN, str(tmp_path)], capture_output=True, text=True, cwd=here, timeout=600
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["compiled"] == [False, True]
    assert found["mae"][1] == pytest.approx(found["mae"][0], rel=1e-3)


def test_it_is_off_unless_asked_for() -> None:
    assert small().training.compile is False
    assert small(compile=True).training.compile is True

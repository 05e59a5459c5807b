"""Fixtures that every room's tests share."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# Without a GPU the kernels run in Triton's interpreter. Triton looks at this once, when it is first imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# A busy machine may take its time over any one example.
settings.register_profile("f2stnet", deadline=None)
settings.load_profile("f2stnet")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("cuda"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets: $F2STNET_REAL_DATA, or shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("F2STNET_REAL_DATA", beside))
    if not (folder / "pems08_partial" / "dataset.toml").is_file():
        pytest.skip(f"no real data sets in {folder}; name their folder in F2STNET_REAL_DATA")
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or fills the user's cache."""
    monkeypatch.setenv("F2STNET_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))

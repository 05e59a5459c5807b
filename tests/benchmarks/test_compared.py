"""The table of docs/compared-models.md is what the records say."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from f2stnet.models import models

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def compared(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("compared")


def test_the_page_is_what_the_records_say(compared: ModuleType) -> None:
    text = (ROOT / "docs" / "compared-models.md").read_text(encoding="utf-8")
    timed = [json.loads(line) for line in compared.RECORDS.read_text().splitlines()]
    assert text == compared.render(text, compared.table(timed, ROOT / "results"))


def test_the_plot_is_what_the_records_say(compared: ModuleType) -> None:
    assert (ROOT / "docs" / "accuracy-cost.svg").read_text(encoding="utf-8") == compared.plot(ROOT / "results")


def test_all_models_with_a_published_recipe_have_a_row_and_those_without_a_record_say_so(
    compared: ModuleType, tmp_path: Path
) -> None:
    timed = [{"data": "pems08-part", "model": "lightcts", "epoch_seconds": 1.5}]
    rows = compared.table(timed, tmp_path).splitlines()[2:]
    assert {row.split("`")[1] for row in rows} == {name for name, entry in models.items() if entry.published}
    assert all("not run yet" in row for row in rows)
    assert sum("1.50" in row for row in rows) == 1


def test_a_model_s_row_is_the_run_that_the_accuracy_suite_asks_for(compared: ModuleType, tmp_path: Path) -> None:
    """Other runs by a published recipe, of an ablation say, have records beside it."""
    found = {}
    for path in (ROOT / "results" / "central").glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["config"]["run"]["model"]["name"] == "pdformer":
            found[path] = record
    assert len(found) > 1
    place = tmp_path / "central"
    place.mkdir()
    for path, record in found.items():
        if record["config"]["run"]["model"]["drop_path"] == 0:
            (place / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    assert any(place.iterdir())
    assert "| `pdformer` | – | not run yet |" in compared.table([], tmp_path)

"""The report: written from records alone, whole, and the same each time."""

import re
import time
from html.parser import HTMLParser
from pathlib import Path
from weakref import ref

import pytest
from made_up import fill, make
from tiny import SUITE, suite_file

from f2stnet.errors import InputError
from f2stnet.experiments.reproduce import png
from f2stnet.experiments.reproduce.gather import all_suites, gather
from f2stnet.experiments.reproduce.png import rasteriser
from f2stnet.experiments.reproduce.records import Store
from f2stnet.experiments.reproduce.report import report
from f2stnet.experiments.reproduce.results_file import results_markdown
from f2stnet.experiments.reproduce.results_page import results_page
from f2stnet.experiments.reproduce.shelf import cell_of
from f2stnet.experiments.reproduce.suite import find_suite, read_suite

ROOT = Path(__file__).resolve().parents[3]


def test_results_md_is_what_the_records_say() -> None:
    """After new records, or a change of suites: `f2stnet report`."""
    assert (ROOT / "RESULTS.md").read_text(encoding="utf-8") == results_markdown(gather(ROOT / "results"))


def test_the_records_of_this_repository_can_all_be_read() -> None:
    assert Store(ROOT / "results").load()[1] == []


def test_runs_whose_cells_were_asked_for_do_not_stay_in_memory() -> None:
    run = find_suite("accuracy").runs()[0]
    assert cell_of(run) == cell_of(find_suite("accuracy").runs()[0])
    gone = ref(run)
    del run
    assert gone() is None


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    for name in ("accuracy", "clients", "sensitivity"):
        fill(folder, find_suite(name).runs(["pems08-part"]))
    return folder


def test_everything_is_written_under_the_names_that_are_told(results: Path, tmp_path: Path) -> None:
    written = report(results, tmp_path)
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "](report/" not in text  # drawings are not in the repository: a link would lead nowhere there
    told = re.findall(r"^- .+: `([^`]+\.svg)`$", text, re.MULTILINE)
    assert len(told) == written.figures > 5
    for name in told:
        assert (tmp_path / "report" / "figures" / name).is_file(), name
    tables = tmp_path / "report" / "tables"
    assert len(list(tables.glob("*.csv"))) == len(list(tables.glob("*.tex"))) == written.tables
    anchors = re.findall(r"\]\(#([^)]+)\)", text)
    headings = [
        re.sub(r"[^\w\- ]", "", line[3:].lower()).replace(" ", "-") for line in text.splitlines() if line[:3] == "## "
    ]
    assert anchors == headings


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_records_give_the_same_files_and_old_ones_go(results: Path, tmp_path: Path) -> None:
    suites = [find_suite(name) for name in ("accuracy", "clients")]
    report(results, tmp_path / "once", suites[:1])
    report(results, tmp_path / "twice", suites)
    assert len(_files(tmp_path / "twice")) > len(_files(tmp_path / "once"))
    report(results, tmp_path / "twice", suites[:1])
    assert _files(tmp_path / "twice") == _files(tmp_path / "once")


def _strangers(folder: Path) -> dict[Path, str]:
    """What somebody may keep in a report's folder; some of it are copies of what a report wrote."""
    for kind in ("tables", "figures"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    kept = {
        folder / "figures" / "photo.png": "pixels",
        folder / "figures" / "my-1-drawing.svg": '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 20"></svg>',
        folder / "figures" / "raw" / "a.svg": "<svg/>",
        folder / "figures" / "a.b" / "c.d": "in a folder that looks like a file",
        folder / "tables" / "notes.csv": "table,row,column",
        folder / "tables" / "mine.tex": r"\label{tab:accuracy-1-pems08-part}",
        folder / "tables" / "read me": "no suffix",
    }
    for written, copy in (
        ("tables/clients-1-pems08-part.csv", "tables/best.csv"),
        ("figures/clients-1*.svg", "my.svg"),
    ):
        for source in sorted(folder.glob(written))[:1]:
            kept[source.parent / Path(copy).name] = source.read_text(encoding="utf-8")
    for path, text in kept.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return kept


def _untouched(kept: dict[Path, str]) -> bool:
    return {path: path.read_text(encoding="utf-8") for path in kept if path.exists()} == kept


def test_files_of_somebody_s_own_in_the_report_s_folder_are_left_alone(results: Path, tmp_path: Path) -> None:
    first = _strangers(tmp_path / "report")
    suites = [find_suite(name) for name in ("accuracy", "clients")]
    report(results, tmp_path, suites)
    assert _untouched(first)
    second = _strangers(tmp_path / "report")
    assert len(second) == len(first) + 2
    report(results, tmp_path, suites[:1])
    assert not list((tmp_path / "report").glob("*/clients-*"))
    assert _untouched(second)


def test_a_folder_from_before_there_was_a_list_loses_its_old_tables_and_figures_alone(
    results: Path, tmp_path: Path
) -> None:
    report(results, tmp_path, [find_suite("accuracy"), find_suite("clients")])
    (tmp_path / "report" / ".written").unlink()
    for drawn in (tmp_path / "report" / "figures").glob("*.svg"):
        drawn.with_suffix(".png").touch()  # where there is a font
    kept = _strangers(tmp_path / "report")
    assert {path.suffix for path in (tmp_path / "report").glob("*/clients-*")} == {".csv", ".tex", ".svg", ".png"}
    report(results, tmp_path, [find_suite("accuracy")])
    assert not list((tmp_path / "report").glob("*/clients-*"))
    assert list((tmp_path / "report").glob("*/accuracy-*"))
    assert _untouched(kept)


def test_a_list_that_names_files_elsewhere_removes_none_of_them(results: Path, tmp_path: Path) -> None:
    (tmp_path / "report" / "tables").mkdir(parents=True)
    mine = [tmp_path / "thesis.tex", tmp_path / "report" / "thesis.tex", tmp_path / "report" / "tables" / "thesis.tex"]
    for path in mine:
        path.write_text("years of work")
    (tmp_path / "report" / ".written").write_text(f"tables/../../thesis.tex\n{mine[0]}\nthesis.tex\ntables\n\n")
    report(results, tmp_path, [find_suite("accuracy")])
    assert all(path.exists() for path in mine)


@pytest.mark.parametrize("name", ["RESULTS.md", "report/index.html"])
def test_a_file_of_somebody_s_own_under_a_name_of_ours_is_refused_and_nothing_is_written(
    name: str, results: Path, tmp_path: Path
) -> None:
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("# Results of the football season\n", encoding="utf-8")
    before = _files(tmp_path)
    with pytest.raises(InputError, match=re.escape(f"{mine}: not written by `f2stnet report`")):
        report(results, tmp_path)
    assert _files(tmp_path) == before
    mine.unlink()
    report(results, tmp_path)
    report(results, tmp_path)  # its own is another matter


def test_pixels_are_drawn_anew_only_where_a_figure_changed(results: Path, tmp_path: Path) -> None:
    if rasteriser()[1]:
        pytest.skip(rasteriser()[1])

    def drawn() -> dict[str, int]:
        return {path.stem: path.stat().st_mtime_ns for path in (tmp_path / "report" / "figures").glob("*.png")}

    report(results, tmp_path)
    first, figures = drawn(), sorted((tmp_path / "report" / "figures").glob("*.svg"))
    assert sorted(first) == [path.stem for path in figures]
    assert len(first) > 2 * png.WORTH  # so that several processes had their share
    figures[0].write_text("another figure")
    figures[1].with_suffix(".png").unlink()
    report(results, tmp_path)
    assert {name for name, when in drawn().items() if when != first[name]} == {path.stem for path in figures[:2]}


@pytest.mark.parametrize("python", ["/bin/false", "no such file"])
def test_pixels_are_drawn_where_no_process_can_be_started_too(
    python: str, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rasteriser()[1]:
        pytest.skip(rasteriser()[1])
    report(results, tmp_path / "by many")
    monkeypatch.setattr(png.sys, "executable", python)
    report(results, tmp_path / "by one")
    many, one = (sorted((tmp_path / by / "report" / "figures").glob("*.png")) for by in ("by many", "by one"))
    assert [path.read_bytes() for path in many] == [path.read_bytes() for path in one]
    assert many


def test_where_nothing_was_run_the_paper_s_figure_and_the_missing_set_are_said(results: Path) -> None:
    text = results_markdown(gather(results))
    assert "paper: 18.028 ± 0.09, here: not run (needs PeMS04)" in text
    assert "paper: 30.58, here: not run (needs PeMS04)" in text  # client counts
    assert "No record yet: `f2stnet reproduce schedules`." in results_markdown(gather(results / "nothing"))


def test_a_spoilt_record_is_named_in_the_report_and_the_rest_is_shown(results: Path, tmp_path: Path) -> None:
    copy = tmp_path / "results" / "central"
    copy.mkdir(parents=True)
    files = sorted((results / "central").iterdir())
    for file in files[:4]:
        (copy / file.name).write_bytes(file.read_bytes())
    (copy / files[0].name).write_text("half of a rec")
    found = gather(tmp_path / "results")
    assert len(found.records) == 3
    assert f"Left out: {copy / files[0].name}: not a record" in results_markdown(found)
    assert files[0].name in results_page(found).html()


def test_records_that_no_suite_asks_for_are_counted_and_not_shown(tmp_path: Path) -> None:
    other = read_suite(suite_file(tmp_path, SUITE.replace("tiny-city", "pems08-part")))
    fill(tmp_path / "results", other.runs())
    found = gather(tmp_path / "results")
    assert found.strangers == 3  # other settings than our suites'
    assert "3 of them belong to no suite" in results_markdown(found)


def test_records_of_the_synthetic_city_are_shown_under_a_suite_that_does_not_name_it(tmp_path: Path) -> None:
    fill(tmp_path / "results", find_suite("clients").runs(["synthetic"]))
    found = gather(tmp_path / "results")
    assert found.strangers == 0
    shown = {one.suite.name: one for one in found.suites}
    assert [table.where for table in shown["clients"].tables if table.measured] == ["synthetic"]
    same = ("clients", "federated")  # ten clients under FFA are a row of both
    assert not any(table.measured for name, one in shown.items() if name not in same for table in one.tables)
    assert list(shown["federated"].runs).count("synthetic") == 1


def test_a_run_that_another_suite_asks_for_does_not_open_a_table_of_its_own(tmp_path: Path) -> None:
    """FFA with ten clients on the synthetic city is a run of `federated`, and a row of `clients` and `schedules`."""
    fill(tmp_path / "results", find_suite("federated").runs(["synthetic"]))
    shown = {one.suite.name: one for one in gather(tmp_path / "results").suites}
    assert "synthetic" in shown["federated"].runs
    assert [name for name, one in shown.items() if "synthetic" in one.runs] == ["federated"]


def test_of_two_versions_of_a_data_set_the_one_measured_last_is_shown_and_the_rest_is_told(tmp_path: Path) -> None:
    suite = read_suite(suite_file(tmp_path))
    runs, store = suite.runs(), Store(tmp_path / "results")
    assert [(run.row, run.seed) for run in runs] == [("STID", 0), ("STID", 1), ("last value", 0)]
    old, later = "a" * 16, "b" * 16
    store.write(make(runs[0], digest=old))  # another seed of the same row
    store.write(make(runs[1], digest=later) | {"finished": "2026-01-02T00:00:00Z"})
    store.write(make(runs[2], digest=old))  # a row to be ranked against it
    found = gather(store.root, [suite])
    (table,) = found.suites[0].tables
    assert [sorted(row.cells[0].figures) for row in table.rows] == [[1], []]
    told = f"tiny-city: 2 records of an older version of this data ({old}) are left out; {later} is shown"
    assert found.notes == [told]
    assert f"{told}." in results_markdown(found)
    assert told in results_page(found).html()
    store.write(make(runs[2], digest="c" * 16) | {"finished": "2026-01-03T00:00:00Z"})
    assert [note.partition(" of")[0] for note in gather(store.root, [suite]).notes] == [
        "tiny-city: 2 records",
        "tiny-city: 1 record",
    ]


def test_records_of_one_version_have_no_note(results: Path) -> None:
    assert gather(results).notes == []


def test_costs_on_data_of_one_s_own_are_shown(tmp_path: Path) -> None:
    fill(tmp_path / "results", find_suite("efficiency").runs(["town"])[:2])
    found = gather(tmp_path / "results")
    assert found.strangers == 0
    shown = {one.suite.name: one for one in found.suites}
    assert shown["efficiency"].runs["town"][0] == 2
    assert [table.where for table in shown["efficiency"].tables if table.measured] == ["town"]
    assert [name for name, one in shown.items() if "town" in one.runs] == ["efficiency"]


class Cells(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_stands_alone_and_shows_the_records_behind_each_cell(results: Path) -> None:
    from f2stnet import page

    html = results_page(gather(results)).html().replace(page._plotly(), "")
    for tag, attributes in Cells(html).tags:
        assert tag not in ("link", "img", "iframe"), tag
        assert "src" not in attributes, tag
    for file in (results / "central").iterdir():
        assert f"central/{file.name}" in html
    cell = re.search(r"<td><details><summary[^>]*>([^<]*)</summary><div class=\"behind\">(.*?)</div>", html)
    assert cell
    assert "seed 0:" in html
    assert "To the best, 95 %:" in html


def test_names_from_people_are_never_markup(tmp_path: Path) -> None:
    nasty = "<script>alert(1)</script>"
    suite = read_suite(suite_file(tmp_path, SUITE.replace("tiny-city", nasty).replace("STID", nasty)))
    store = Store(tmp_path / "results")
    for run in suite.runs():
        store.write(make(run) | {"commit": nasty})
    html = results_page(gather(tmp_path / "results", [suite])).html()
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html


def test_hundreds_of_records_are_rendered_in_seconds(tmp_path: Path) -> None:
    """The target is ten seconds for a thousand; here a share of it, with room for a busy machine."""
    for suite in all_suites():
        if suite.name in ("accuracy", "ablation", "clients", "schedules"):
            fill(tmp_path / "results", suite.runs(["pems08-part", "hzmetro-10min"]))
    began = time.process_time()
    written = report(tmp_path / "results", tmp_path / "out")
    seconds = time.process_time() - began
    assert written.records > 150
    assert seconds < 10 * written.records / 1000 + 3


def test_a_run_that_two_blocks_ask_for_is_counted_once(tmp_path: Path) -> None:
    twice = SUITE + SUITE.partition('title = "Tiny"')[2].replace("guess = 2", 'guess = 2\ntitle = "again"')
    suite = read_suite(suite_file(tmp_path / "suite", twice))
    fill(tmp_path / "results", suite.runs()[:1])
    (shown,) = gather(tmp_path / "results", [suite]).suites
    assert len(suite.runs()) == 6
    assert shown.runs == {"tiny-city": (1, 3)}

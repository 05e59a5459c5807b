import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from f2stnet.data.download import Bar, blob_id, get
from f2stnet.data.public import PUBLIC, PublicFile, folders
from f2stnet.errors import InputError

CONTENT = bytes(range(256)) * 3000


class Handler(http.server.SimpleHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012 (shared by the handlers of one server)

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/short":  # promises more than it sends
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[:1000])
        else:
            super().do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "data.npz").write_bytes(CONTENT)
    (tmp_path / "www" / "graph.csv").write_bytes(b"from,to\n")
    monkeypatch.setenv("F2STNET_DATA", str(tmp_path / "home"))
    Handler.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path / "www")) as serving:
        threading.Thread(target=serving.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


def table(server: str, tmp_path: Path, page: str = "data.npz") -> dict[str, tuple[PublicFile, ...]]:
    blob = blob_id(tmp_path / "www" / "data.npz")
    graph = blob_id(tmp_path / "www" / "graph.csv")
    files = (
        PublicFile("data.npz", f"{server}/{page}", blob),
        PublicFile("graph.csv", f"{server}/graph.csv", graph),
    )
    return {"mine": files}


def leftovers(tmp_path: Path) -> list[str]:
    return sorted(file.name for file in (tmp_path / "home").rglob("*") if file.is_file())


def test_the_id_is_the_one_git_gives(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "hello").write_bytes(b"hello\n")
    assert blob_id(tmp_path / "empty") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert blob_id(tmp_path / "hello") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_files_are_downloaded_once(server: str, tmp_path: Path) -> None:
    paths = get("mine", None, table(server, tmp_path))
    assert paths == [folders("mine")[0] / "data.npz", folders("mine")[0] / "graph.csv"]
    assert paths[0].read_bytes() == CONTENT
    assert Handler.asked == ["/data.npz", "/graph.csv"]
    assert get("mine", None, table(server, tmp_path)) == paths
    assert len(Handler.asked) == 2
    assert leftovers(tmp_path) == ["data.npz", "graph.csv"]


def test_a_damaged_file_is_downloaded_anew(server: str, tmp_path: Path) -> None:
    (path, _) = get("mine", None, table(server, tmp_path))
    path.write_bytes(CONTENT[:-1])
    get("mine", None, table(server, tmp_path))
    assert path.read_bytes() == CONTENT


def test_a_file_with_other_bytes_is_refused_and_not_kept(server: str, tmp_path: Path) -> None:
    known = table(server, tmp_path)
    (tmp_path / "www" / "data.npz").write_bytes(CONTENT + b"!")
    with pytest.raises(InputError, match=r"came with the git blob id .*nothing is kept"):
        get("mine", None, known)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("page", ["short", "none.npz"])
def test_a_broken_download_leaves_nothing(server: str, tmp_path: Path, page: str) -> None:
    with pytest.raises(InputError) as wrong:
        get("mine", None, table(server, tmp_path, page))
    assert f"{server}/{page}" in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert leftovers(tmp_path) == []


def test_without_a_network_one_line_says_which_file_goes_where(server: str, tmp_path: Path) -> None:
    nowhere = {"mine": (PublicFile("data.npz", "http://127.0.0.1:9/data.npz", "0" * 40),)}
    with pytest.raises(InputError) as wrong:
        get("mine", None, nowhere)
    message = str(wrong.value)
    assert message.startswith("cannot download http://127.0.0.1:9/data.npz (")
    assert message.endswith(f"; put that file at {folders('mine')[0] / 'data.npz'}")
    assert "\n" not in message


def test_a_file_without_checked_source_must_be_there(server: str, tmp_path: Path) -> None:
    by_hand = {"mine": (PublicFile("a.h5", "the moon"), *table(server, tmp_path)["mine"])}
    with pytest.raises(InputError, match=r"a\.h5: no checked source is known .*\(the moon\)"):
        get("mine", None, by_hand)
    assert leftovers(tmp_path) == ["data.npz", "graph.csv"]  # the others came all the same
    (folders("mine")[0] / "a.h5").write_bytes(b"x")
    assert [path.name for path in get("mine", None, by_hand)] == ["data.npz", "graph.csv", "a.h5"]


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(InputError, match="no public data set 'pems4'; did you mean 'pems04'"):
        get("pems4")


def test_a_bar_of_ones_own_is_told_of_the_bytes(server: str, tmp_path: Path) -> None:
    told: dict[str, Bar] = {}

    def watch(name: str) -> Bar:
        told[name] = Bar(name)
        return told[name]

    get("mine", watch, table(server, tmp_path))
    assert (told["data.npz"].total, told["data.npz"].done) == (len(CONTENT), len(CONTENT))


def test_the_bar_is_drawn_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bar = Bar("data.npz")
    bar.total = 2_000_000
    bar.update(1_000_000)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    bar.update(500_000)
    bar.close()
    shown = capsys.readouterr().err
    assert "1.5 of 2.0 MB" in shown
    assert shown.count("█") == 22


def test_without_pooch_one_line_says_what_to_do(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(InputError, match="downloading needs the package pooch; or put http"):
        get("mine", None, table(server, tmp_path))


def test_the_table_is_whole() -> None:
    for files in PUBLIC.values():
        for file in files:
            checked = file.origin.startswith("https://raw.githubusercontent.com/")
            assert (file.blob is not None and len(file.blob) == 40) == checked


@pytest.mark.real
def test_the_ids_are_those_of_the_real_files(real_data: Path) -> None:
    for name, file, place in (
        ("pems04", "distance.csv", "pems04_partial"),
        ("pems08", "distance.csv", "pems08_partial"),
        ("knowair", "city.txt", "knowair_geo_only"),
    ):
        expected = next(entry.blob for entry in PUBLIC[name] if entry.name == file)
        assert blob_id(real_data / place / file) == expected


def test_git_agrees(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CONTENT)
    try:
        found = subprocess.run(["git", "hash-object", str(tmp_path / "x")], capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git")
    assert found.stdout.strip() == blob_id(tmp_path / "x")

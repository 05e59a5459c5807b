import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from f2stnet.data.tabular import open_table, read_text
from f2stnet.errors import InputError


def written(tmp_path: Path, text: str | bytes, name: str = "x.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("text", ["", "\n", "\n\n", "\ufeff"])
def test_an_empty_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"x\.csv: is empty"):
        open_table(written(tmp_path, text))


@pytest.mark.parametrize("text", ["time,a", "time,a\n", "time,a\n\n\n"])
def test_a_header_alone_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"x\.csv: has a header and no rows"):
        open_table(written(tmp_path, text))


def test_a_byte_order_mark_and_windows_lines_are_no_part_of_the_table(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "\ufefftime,a\r\nx,1\r\ny,2\r\n".encode()))
    assert table.columns == ("time", "a")
    assert table.numbers(["a"]).ravel().tolist() == [1, 2]
    assert table.distinct("time")[1] == ["x", "y"]


def test_bytes_that_are_no_utf8_are_refused_with_their_row(tmp_path: Path) -> None:
    path = written(tmp_path, "time,a\n1,2\n1,Süd\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"x\.csv, row 3: byte 0xfc is not UTF-8"):
        open_table(path)
    with pytest.raises(InputError, match="UTF-16"):
        open_table(written(tmp_path, "time,a\n1,2\n".encode("utf-16")))


def test_gzip_is_opened_and_a_broken_one_refused(tmp_path: Path) -> None:
    packed = gzip.compress(b"a,b\n1,2\n" * 1)
    assert open_table(written(tmp_path, packed, "x.csv.gz")).numbers(["b"])[0, 0] == 2
    for raw in (packed[:-6], b"a,b\n1,2\n"):
        with pytest.raises(InputError, match="not a readable gzip file"):
            read_text(written(tmp_path, raw, "y.csv.gz"))


@pytest.mark.parametrize("separator", [";", "\t"])
def test_european_tables_have_decimal_commas(tmp_path: Path, separator: str) -> None:
    text = "time;a;b\n2024-01-01;1,5;7\n2024-01-02;-2,25;\n".replace(";", separator)
    numbers = open_table(written(tmp_path, text)).numbers(["a", "b"])
    np.testing.assert_array_equal(numbers, [[1.5, 7], [-2.25, np.nan]])


def test_a_semicolon_table_may_have_decimal_points(tmp_path: Path) -> None:
    assert open_table(written(tmp_path, "a;b\n1.5;2\n")).numbers(["a"])[0, 0] == 1.5


def test_a_decimal_comma_far_down_is_found(tmp_path: Path) -> None:
    text = "a;b\n" + "1;2\n" * 5000 + "3,5;4\n"
    assert open_table(written(tmp_path, text)).numbers(["a"])[-1, 0] == 3.5


def test_a_mix_of_decimal_signs_is_refused_by_cell(tmp_path: Path) -> None:
    path = written(tmp_path, "a;b\n1,5;2\n1.5;2\n")
    # With a decimal comma, '1.5' is no number.
    with pytest.raises(InputError, match=r"x\.csv, row 3, column 'a': '1\.5' is no number"):
        open_table(path).numbers(["a", "b"])


def test_quoted_decimal_commas_in_a_semicolon_table(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, 'time;"a b"\n"x";"1,5"\n'))
    assert table.numbers(["a b"])[0, 0] == 1.5


def test_lines_that_end_in_a_separator_have_no_last_column(tmp_path: Path) -> None:
    assert open_table(written(tmp_path, "time;a;\nx;1;\ny;2;\n")).columns == ("time", "a")
    with pytest.raises(InputError, match="column 3 has no name"):
        open_table(written(tmp_path, "time;a;\nx;1;5\n"))


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("row", ["x;1;2", "x;1,5;2,5", 'x;"1,5";2', "x;;"])
def test_names_in_a_semicolon_table_may_have_commas(tmp_path: Path, quote: str, row: str) -> None:
    head = ";".join(["time", f"{quote}Hauptstr., Nord{quote}", f"{quote}Hauptstr., Süd{quote}"])
    table = open_table(written(tmp_path, f"{head}\n{row}\n{row}\n"))
    assert table.columns == ("time", "Hauptstr., Nord", "Hauptstr., Süd")
    cell = row.split(";")[1].strip('"').replace(",", ".")
    np.testing.assert_array_equal(table.numbers(["Hauptstr., Nord"]).ravel(), [float(cell or "nan")] * 2)


def test_names_in_a_comma_table_may_have_semicolons(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, 'time,A;1,"B;2;3, x"\nx,1,2\n'))
    assert table.columns == ("time", "A;1", "B;2;3, x")


def test_a_short_first_row_does_not_change_the_separator(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.csv, row 2: has 2 cells, the header has 3"):
        open_table(written(tmp_path, "time;A, 1;B, 2\nx;1\ny;1;2\n"))


@pytest.mark.parametrize("cell", ["", "NaN", "nan", "NA", "N/A", "null", " ", " NA "])
def test_empty_cells_are_nan(tmp_path: Path, cell: str) -> None:
    assert np.isnan(open_table(written(tmp_path, f"a,b\n1,{cell}\n")).numbers(["b"])[0, 0])


def test_a_sensor_may_be_called_na(tmp_path: Path) -> None:
    assert open_table(written(tmp_path, "sensor,a\nNA,1\nnull,2\n")).distinct("sensor")[1] == ["NA", "null"]


@pytest.mark.parametrize("cell", ["closed", "1.2.3", "True", "12 km/h", "1,2", "--"])
def test_a_text_among_numbers_is_refused_with_file_row_column_and_text(tmp_path: Path, cell: str) -> None:
    path = written(tmp_path, f'time,a,b\nx,1,2\n\ny,3,"{cell}"\nz,no,5\n')
    with pytest.raises(InputError) as refused:
        open_table(path).numbers(["a", "b"])
    assert str(refused.value).startswith(f"{path}, row 4, column 'b': {cell!r} is no number")


def test_a_column_of_true_and_false_is_no_column_of_numbers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="row 2, column 'b': 'True' is no number"):
        open_table(written(tmp_path, "a,b\n1,True\n2,False\n")).numbers(["b"])


def test_row_numbers_count_leading_and_quoted_line_breaks(tmp_path: Path) -> None:
    path = written(tmp_path, '\n\ntime,a\n"two\nlines",1\nx,oops\n')
    with pytest.raises(InputError, match=r"row 6, column 'a': 'oops'"):
        open_table(path).numbers(["a"])


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize(("row", "found"), [("y,3", 2), ("y,3,4,5", 4)])
def test_a_row_of_another_length_is_refused(tmp_path: Path, quote: str, row: str, found: int) -> None:
    path = written(tmp_path, f"time,a,b\n{quote}x{quote},1,2\n{row}\n")
    with pytest.raises(InputError, match=rf"x\.csv, row 3: has {found} cells, the header has 3"):
        open_table(path)


def test_an_open_quote_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.csv") as refused:
        open_table(written(tmp_path, 'a,b\n1,"2\n3,4\n')).numbers(["a"])
    assert "\n" not in str(refused.value)


def test_an_open_quote_in_a_large_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.csv, row 2: not a readable table"):
        open_table(written(tmp_path, 'a,b\n1,"2\n' + "3,4\n" * 50_000))


def test_names_that_differ_by_spaces_are_one(tmp_path: Path) -> None:
    codes, names = open_table(written(tmp_path, "sensor,a\nx,1\nx ,2\n y,3\n")).distinct("sensor")
    assert (codes.tolist(), names) == ([0, 0, 1], ["x", "y"])


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="columns 2 and 3 are both named 'a'"):
        open_table(written(tmp_path, "time,a,a\nx,1,2\n"))


def test_a_wrong_column_is_refused_with_the_near_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'sensr'; did you mean 'sensor'"):
        open_table(written(tmp_path, "sensor,a\nx,1\n")).distinct("sensr")


def test_numbers_beyond_64_bits_are_numbers(tmp_path: Path) -> None:
    numbers = open_table(written(tmp_path, "a,b\n99999999999999999999999,inf\n1,-inf\n")).numbers(["a", "b"])
    np.testing.assert_allclose(numbers, [[1e23, np.inf], [1, -np.inf]])


def test_parquet_has_the_same_columns(tmp_path: Path) -> None:
    times = pd.date_range("2024-01-01", periods=2, freq="h", tz="Europe/Berlin")
    frame = pd.DataFrame({"time": times, "sensor": [7, 8], "a": pd.array([1, None], dtype="Int64")})
    frame.to_parquet(tmp_path / "x.parquet")
    table = open_table(tmp_path / "x.parquet")
    assert table.columns == ("time", "sensor", "a")
    assert table.distinct("time")[1] == ["2024-01-01 00:00:00+01:00", "2024-01-01 01:00:00+01:00"]
    assert table.distinct("sensor")[1] == ["7", "8"]
    np.testing.assert_array_equal(table.numbers(["a"]), [[1], [np.nan]])


def test_the_index_of_a_parquet_is_a_column(tmp_path: Path) -> None:
    times = pd.DatetimeIndex(["2024-01-01"], name="time")
    pd.DataFrame({"a": [1.0]}, index=times).to_parquet(tmp_path / "x.parquet")
    assert open_table(tmp_path / "x.parquet").columns == ("time", "a")


def test_texts_and_truths_in_a_parquet_are_refused(tmp_path: Path) -> None:
    pd.DataFrame({"a": ["1", "x"], "b": [True, False]}).to_parquet(tmp_path / "x.parquet")
    table = open_table(tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"x\.parquet, row 2, column 'a': 'x' is no number"):
        table.numbers(["a"])
    with pytest.raises(InputError, match=r"row 1, column 'b': 'True' is no number"):
        table.numbers(["b"])


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a readable Parquet file") as refused:
        open_table(written(tmp_path, "a,b\n1,2\n", "x.parquet"))
    assert "\n" not in str(refused.value)
    pd.DataFrame({"a": []}).to_parquet(tmp_path / "y.parquet")
    with pytest.raises(InputError, match="has columns and no rows"):
        open_table(tmp_path / "y.parquet")


@pytest.mark.parametrize(
    ("rows", "doubted"),
    [
        (["406;857;1.493", "12;999;2.345"], True),
        (["406;857;1,493", "12;999;2,345"], True),
        (["406;857;1.493", "12;999;2.5"], False),  # decimals
        (["406;857;1.493", "1200;999;2.345"], False),  # a thousand without a mark
        (["61.234;58.100;7.250", "60.001;59.120;7.125"], False),  # three decimals throughout
        (["406;857;0.493", "12;999;0.345"], False),
    ],
)
def test_marks_that_could_separate_thousands_are_pointed_out(tmp_path: Path, rows: list[str], doubted: bool) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b;c\n" + "\n".join(rows) + "\n")
    assert bool(open_table(path).doubt) is doubted
    if doubted:
        assert "is read as 1.493; if its mark separates thousands" in open_table(path).doubt

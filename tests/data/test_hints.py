"""An error in a table says what was found, and which key or edit helps."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from f2stnet.data import load
from f2stnet.errors import InputError

OK = "time,A,B\n2024-01-01 00:00,1,2\n2024-01-01 01:00,3,4\n"


def told(tmp_path: Path, text: str, **keys: Any) -> str:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError) as wrong:
        load(tmp_path / "x.csv", **keys)
    assert "\n" not in str(wrong.value)
    return str(wrong.value).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    ("head", "cells"),
    [
        ("date,time", "2024-01-01,00:00"),
        ("Time,Date", "8:00,01.01.2024"),
        ("date,hour", "2024-01-01,00:00:00"),
    ],
)
def test_date_and_time_in_two_columns(tmp_path: Path, head: str, cells: str) -> None:
    message = told(tmp_path, f"{head},A\n{cells},1\n{cells.replace('00:', '01:')},2\n")
    assert "hold date and time of day apart; expected both in one column, as 2024-03-31 08:05" in message


def test_the_other_half_of_a_time_among_the_readings(tmp_path: Path) -> None:
    text = "Datum,Uhrzeit,A\n2024-01-01,00:00,1\n2024-01-01,01:00,2\n"
    message = told(tmp_path, text, time="Datum")
    assert message == (
        "x.csv, row 2, column 'Uhrzeit': '00:00' is no number; date and time belong in one column, as 2024-03-31 08:05"
    )
    assert "date and time belong in one column" in told(tmp_path, text, time="Uhrzeit")
    hours = "date,hour,A\n2024-01-01,0,1\n2024-01-01,1,2\n2024-01-02,0,1\n2024-01-02,1,2\n"
    assert told(tmp_path, hours).endswith("'hour' belongs into the column of times if it is its hour")


@pytest.mark.parametrize(
    ("count", "unit"),
    [("1704067200", "s"), ("1704067200.0", "s"), ("1704067200000", "ms"), ("1704067200000000000", "ns")],
)
def test_counts_since_1970(tmp_path: Path, count: str, unit: str) -> None:
    text = f"time,A\n{count},1\n"
    message = told(tmp_path, text, step="1h")
    assert f"; with time_unit = {unit}, a count since 1970, it is 2024-01-01 00:00 in UTC" in message
    assert str(load(tmp_path / "x.csv", step="1h", time_unit=unit).start) == "2024-01-01T00:00:00"


def test_another_way_of_writing_times(tmp_path: Path) -> None:
    message = told(tmp_path, "time,A\n1.1.2024 8:00,1\n")
    assert message.endswith("the key time_format describes another way of writing, as %d.%m.%Y %H:%M")
    assert "time_format" in told(tmp_path, "time,A\n202401010800,1\n")


def test_a_column_of_texts_and_a_text_among_numbers(tmp_path: Path) -> None:
    message = told(tmp_path, "time,A,remark\n2024-01-01 00:00,1,dry\n2024-01-01 01:00,3,wet\n")
    assert "column 'remark': 'dry' is no number, nor is any other cell; the key leave_out" in message
    for cells in (("2", "-"), ("-", "-")):
        message = told(tmp_path, f"time,A,B\n2024-01-01 00:00,1,{cells[0]}\n2024-01-01 01:00,3,{cells[1]}\n")
        assert message.endswith("'-' is no number; if it means 'not observed', the key missing says so, as ['-']")


def test_a_column_of_units_and_a_row_of_units(tmp_path: Path) -> None:
    """The key missing would be the wrong advice for either."""
    message = told(tmp_path, "time,sensor,flow,unit\n2024-01-01 00:00,a,1,veh\n2024-01-01 01:00,a,3,veh\n")
    assert "'veh' is no number, nor is any other cell; the key leave_out" in message
    message = told(tmp_path, OK.replace("B\n", "B\n,veh/h,veh/h\n"))
    assert "row 2, column 'A': 'veh/h' is no number; if its row is a second header, take it out; if it" in message
    once = told(tmp_path, OK.replace(",1,2", ",-,2"))
    assert once.endswith("'-' is no number; if it means 'not observed', the key missing says so, as ['-']")


@pytest.mark.parametrize("text", ["1 420", "1\u00a0420", "1\u202f420.5", "-1'420"])
def test_thousands_that_are_set_apart(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, OK.replace(",1,", f",{text},")).endswith("is no number; take what separates thousands out")
    german = "time;A\n2024-01-01 00:00;1,5\n2024-01-01 01:00;1.420,5\n"
    assert told(tmp_path, german).endswith("have a decimal comma; take points between thousands out")


@pytest.mark.parametrize(("text", "moment"), [("45292.0", "2024-01-01 00:00"), ("45292.34375", "2024-01-01 08:15")])
def test_counts_of_excel(tmp_path: Path, text: str, moment: str) -> None:
    for table in (f"time,A\n{text},1\n", f"time;A\n{text.replace('.', ',')};1\n"):
        assert f"; if it is Excel's count of days, {moment}, give" in told(tmp_path, table)


@pytest.mark.parametrize("text", ["Total", ""])
def test_a_row_of_totals(tmp_path: Path, text: str) -> None:
    message = told(tmp_path, f"{OK}{text},4,6\n")
    assert message.startswith(f"x.csv, row 4: {text!r} is no time")
    assert message.endswith("a row without a time, as one of totals, has to be taken out")


def test_a_title_above_the_header_and_another_encoding(tmp_path: Path) -> None:
    assert told(tmp_path, f"Counts,,\n{OK}") == "x.csv: column 2 has no name; the first line has to be the header"
    (tmp_path / "y.csv").write_bytes("time,Südring\n".encode("latin-1"))
    with pytest.raises(InputError, match="row 1: byte 0xfc is not UTF-8 text; save it as UTF-8"):
        load(tmp_path / "y.csv")


def test_columns_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    head = ",".join(["when", *"ABCDEFGHIJ"])
    assert "columns when, A, B, C, D, E, F, G and 3 more: no 'time'" in told(tmp_path, f"{head}\n{'1,' * 10}1\n")


def test_decimal_commas(tmp_path: Path) -> None:
    message = told(tmp_path, OK.replace(",1,", ',"1,5",'))
    assert "'1,5' is no number; write decimals with a point, or separate cells by semicolons" in message
    mixed = "time;A\n2024-01-01 00:00;1,5\n2024-01-01 01:00;1.5\n"
    assert told(tmp_path, mixed).endswith("'1.5' is no number; other numbers of this file have a decimal comma")


@pytest.mark.parametrize("head", ["sensor,x,y", "id,Easting,Northing"])
def test_places_in_metres(tmp_path: Path, head: str) -> None:
    (tmp_path / "xy.csv").write_text(f"{head}\nA,690000,5330000\nB,690100,5330200\n")
    message = told(tmp_path, OK, graph=str(tmp_path / "xy.csv"))
    assert message.startswith(f"xy.csv: columns {head.replace(',', ', ')}: places are read from columns lat and lon")


def test_names_that_only_their_case_tells_apart(tmp_path: Path) -> None:
    twins = "time,Sensor,sensor,flow\n2024-01-01 00:00,a,2,1\n2024-01-01 00:00,b,2,3\n"
    message = told(tmp_path, twins, step="1h")
    assert message.startswith("x.csv: columns 'Sensor' and 'sensor' could both name sensors; the key sensor tells")
    (tmp_path / "x.csv").write_text(OK.replace("B", "a"))
    assert "columns 'A' and 'a' are two; if they are one, give them one spelling in the file" in (
        load(tmp_path / "x.csv").notes
    )
    long = pd.read_csv(tmp_path / "x.csv").melt("time", var_name="sensor", value_name="flow")
    long.to_csv(tmp_path / "long.csv", index=False)
    assert any(note.startswith("sensors 'A' and 'a' are two") for note in load(tmp_path / "long.csv").notes)
    (tmp_path / "roads.csv").write_text("from,to\nA,b\n")
    message = told(tmp_path, OK, graph=str(tmp_path / "roads.csv"))
    assert message.endswith("sensor 'b' is not in the data; did you mean 'B'?")

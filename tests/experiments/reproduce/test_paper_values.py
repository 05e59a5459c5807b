"""The paper's printed figures, against what the paper says of them itself."""

import pytest

from f2stnet.experiments.reproduce.paper_values import printed, set_name, whole_table
from f2stnet.federated.fairness import Scores, composite_gain


def _number(text: str) -> float:
    return float(text.partition("±")[0])


def _scores(row: list[str]) -> Scores:
    numbers = [_number(text) for text in row[:6]]
    return Scores([numbers[:3], numbers[3:]], _number(row[7]), _number(row[8]))


def test_the_printed_delta_follows_from_the_printed_errors() -> None:
    table = whole_table("federated", "pems04")
    for method, row in table.items():
        assert composite_gain(_scores(row), _scores(table["FedAvg"])) == pytest.approx(_number(row[6]), abs=5e-4), (
            method
        )


@pytest.mark.parametrize("data", ["pems04", "hzmetro", "knowair"])
def test_tables_are_whole_and_bold_is_ours(data: str) -> None:
    accuracy, federated = whole_table("accuracy", data), whole_table("federated", data)
    assert len(accuracy) == 11
    assert len(federated) == 9
    for table, columns in ((accuracy, range(3)), (federated, (0, 1, 2, 3, 4, 5, 7, 8))):
        for column in columns:
            best = min(table, key=lambda name: _number(table[name][column]))
            assert best == "F2STNet", (data, column)
    assert set_name(data)


def test_what_the_paper_has_not_is_empty() -> None:
    assert printed("accuracy", "pems08-part", "F2STNet") == []
    assert printed("schedules", "pems04", "fixed") == []
    assert set_name("pems08-part") == ""

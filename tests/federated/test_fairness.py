import numpy as np
import pytest

from f2stnet.federated.fairness import Scores, composite_gain, fairness, gap

FEDAVG = Scores([[30.857, 19.927, 13.345], [31.419, 20.408, 13.876]], 33.21, 1.19)
TABLE_2 = {
    "FedProx": (Scores([[30.414, 19.508, 12.938], [30.978, 19.929, 13.414]], 32.88, 1.03), 4.255),
    "MOON": (Scores([[30.674, 19.779, 13.217], [31.144, 20.198, 13.629]], 32.97, 0.98), 4.272),
    "FedOPT": (Scores([[29.774, 18.752, 12.035], [30.209, 19.339, 12.916]], 31.12, 0.84), 10.664),
    "FedProc": (Scores([[30.149, 19.081, 12.763], [30.579, 19.566, 13.152]], 31.88, 0.89), 8.135),
    "FedSage": (Scores([[30.023, 18.888, 12.653], [30.442, 19.385, 12.981]], 31.61, 0.92), 8.269),
    "FedProto": (Scores([[30.461, 19.269, 13.014], [30.929, 19.843, 13.443]], 32.13, 0.91), 6.808),
    "FGGP": (Scores([[29.841, 18.668, 12.314], [30.048, 19.127, 12.666]], 31.03, 0.81), 11.369),
    "F2STNet": (Scores([[29.500, 18.210, 11.910], [29.819, 18.691, 12.001]], 30.40, 0.75), 14.166),
}


@pytest.mark.parametrize("method", TABLE_2)
def test_delta_is_the_papers_column(method: str) -> None:
    scores, published = TABLE_2[method]
    assert round(composite_gain(scores, FEDAVG), 3) == published


def test_delta_of_the_base_is_zero() -> None:
    assert composite_gain(FEDAVG, FEDAVG) == 0


def test_figures_of_four_clients_by_hand() -> None:
    rmse, mae = [1.0, 2.0, 3.0, 6.0], [1.0, 1.0, 2.0, 4.0]
    clients = {f"c{k}": {"rmse": r, "mae": m, "mape": None} for k, (r, m) in enumerate(zip(rmse, mae, strict=True))}
    found = fairness(clients)
    assert found["max_rmse"] == 6
    assert found["std_rmse"] == pytest.approx(np.std(rmse, ddof=1))
    assert found["worst5_mae"] == 2  # fewer than five: all of them
    assert found["mae_std"] == pytest.approx(np.std(mae, ddof=1))
    assert found["worst10_percent_mae"] == 4
    assert found["jain"] == pytest.approx(12**2 / (4 * 50))


def test_worst_five_of_ten_and_a_client_without_labels() -> None:
    clients = {f"c{k}": {"rmse": 1.0 + k, "mae": float(k), "mape": 0.0} for k in range(10)}
    clients["silent"] = {"rmse": None, "mae": None, "mape": None}
    assert fairness(clients)["worst5_mae"] == 7  # 5 … 9
    assert fairness({"silent": clients["silent"]})["max_rmse"] is None
    assert fairness({"one": clients["c3"]})["std_rmse"] is None


def test_the_gap_is_to_the_best_that_any_reference_reached() -> None:
    ours = {"a": {"rmse": 11.0}, "b": {"rmse": 10.0}}
    local, pooled = {"a": {"rmse": 10.0}, "b": {"rmse": 20.0}}, {"a": {"rmse": 12.0}, "b": {"rmse": 8.0}}
    found = gap(ours, local, pooled)
    assert found["clients"] == pytest.approx({"a": 10.0, "b": 25.0})
    assert found["mean_gap"] == pytest.approx(17.5)
    assert found["max_gap"] == pytest.approx(25.0)

"""What a model looks up in data stays with its holder: who finds it, what a run saves, what a forecast is made with."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sizes import SMALL

from f2stnet.api import Run
from f2stnet.data.scaler import Scaler, fit_scaler
from f2stnet.data.split import split
from f2stnet.data.windows import Task, Windows
from f2stnet.errors import InputError
from f2stnet.federated import local_training
from f2stnet.federated.partition import partition
from f2stnet.federated.settings import Federation, configure_federation
from f2stnet.federated.shared_model import Pool, saved_beside
from f2stnet.federated.simulation import federate
from f2stnet.models import make_model
from f2stnet.models.pdformer import PDFormer
from f2stnet.series import GraphSeries
from f2stnet.training.evaluate import predict
from f2stnet.training.stream import Stream
from small import waves

LOOKED_UP = ("semantic", "shapes")


def settings(method: str = "fedavg", kind: str = "windows", model: str = "pdformer", **federation: Any) -> Federation:
    small = {
        "pdformer": SMALL["pdformer"] | {"layers": 1, "similar": 2, "shapes": 4},
        "f2stnet": {"width": 8, "frequencies": 2, "state": 1, "blocks": 1},
    }
    return configure_federation(
        method, model, 0, {},
        {
            "window": {"input": 6, "horizon": 3},
            "model": small[model],
            "training": {"batch": 32, "device": "cpu"},
            "partition": {"kind": kind, "clients": 3, "alpha_het": 2.0},
            "federation": {"rounds": 1} | federation,
        },
    )  # fmt: skip


def by_hand(folder: Path, series: GraphSeries, federation: Federation) -> tuple[PDFormer, Windows]:
    """The saved weights, and buffers from the training part that the partition cut."""
    window, told = federation.run.window, json.loads((folder / "series.json").read_text())
    train = split(series, replace(window, purge=True)).train
    scaler = Scaler(np.array(told["mean"]), np.array(told["deviation"]))
    windows = Windows(series, scaler, window.input, window.horizon)
    model = make_model("pdformer", federation.run.settings, Task.of(series, window.input, window.horizon)).eval()
    assert isinstance(model, PDFormer)
    saved = load_file(folder / "best.safetensors")
    model.load_state_dict({name: tensor for name, tensor in saved.items() if name not in LOOKED_UP}, strict=False)
    model.prepare(windows, train)
    return model, windows


def found(model: Any) -> list[torch.Tensor]:
    return [getattr(model, name).clone() for name in LOOKED_UP]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished federation, read by several tests."""
    folder = tmp_path_factory.mktemp("fedavg") / "run"
    federate(waves(), settings(), folder)
    return folder


def test_a_forecast_of_a_federated_run_is_that_of_the_model_prepared_by_hand(shared: Path) -> None:
    series, origins = waves(), np.array([100, 230, 240])
    run = Run.load(shared)
    model, windows = by_hand(shared, series, settings())
    expected = predict(model, windows, origins)
    np.testing.assert_array_equal(run.predict(series, origins), expected)
    test = split(series, run.config.window).test
    unprepared = make_model("pdformer", run.config.settings, Task.of(series, 6, 3))
    model.load_state_dict({name: unprepared.state_dict()[name] for name in LOOKED_UP}, strict=False)
    assert np.abs(predict(model, windows, origins) - expected).max() > 1e-3  # what used to be forecast
    assert run.evaluate(series, test).figures()["mae"] is not None
    table = Run.load(shared).forecast(series)
    np.testing.assert_array_equal(table["c0"], expected[-1].ravel())


def test_the_folder_says_plainly_what_belongs_to_each_holder(shared: Path) -> None:
    told = json.loads((shared / "holder.json").read_text())
    assert told["buffers"] == list(LOOKED_UP)
    assert told["scaler"] is False
    assert "Each holder of data" in told["about"]
    series, window = waves(), settings().run.window
    validation = split(series, window).validation
    assert told["training_before"] == str(series.stamps_at(validation[:1])[0])
    assert not set(LOOKED_UP) & set(load_file(shared / "best.safetensors"))


def test_nothing_after_the_training_part_is_looked_at(shared: Path) -> None:
    series, run, again = waves(), Run.load(shared), Run.load(shared)
    values = series.values.copy()
    values[split(series, run.config.window).validation[0] :] *= 3
    run.prepare(series)
    again.prepare(replace(series, values=values))
    assert same(found(run.model), found(again.model))
    values[:100] = values[:100][::-1]
    again.prepare(replace(series, values=values))
    assert not same(found(run.model), found(again.model))


def test_data_that_does_not_reach_back_to_the_training_part_is_refused(shared: Path) -> None:
    series, run = waves(), Run.load(shared)
    recent = series.cut(200, 240)
    with pytest.raises(InputError, match=r"before 2024-01-0.*finds semantic, shapes .*reaches back") as wrong:
        run.forecast(recent)
    assert "\n" not in str(wrong.value)
    mask = series.mask.copy()
    mask[:200] = False  # rows that are there, without a reading
    with pytest.raises(InputError, match="with an observation before"):
        run.predict(replace(series, mask=mask), np.array([240]))


def test_no_other_way_leads_to_a_forecast_from_empty_buffers(shared: Path) -> None:
    series, run = waves(), Run.load(shared)
    inputs = Windows(series, run.scaler, 6, 3).inputs(torch.tensor([100]))
    with pytest.raises(InputError, match="leaves semantic, shapes to be found"):
        run.model(inputs)
    with pytest.raises(InputError, match=r"run\.prepare"):
        Stream(run, str(series.start))
    run.prepare(series)
    stream = Stream(run, str(series.start))
    for row in series.values:
        stream.push(row)
    np.testing.assert_allclose(stream.forecast(), run.predict(series, np.array([240]))[0], rtol=1e-5)


def test_a_damaged_note_is_one_line(tmp_path: Path, shared: Path) -> None:
    for name in ("config.toml", "series.json", "graph.npz", "best.safetensors"):
        (tmp_path / name).write_bytes((shared / name).read_bytes())
    (tmp_path / "holder.json").write_text('{"buffers": []}')
    with pytest.raises(InputError, match=r"holder\.json: damaged: it lacks 'training_before'"):
        Run.load(tmp_path)


def scored_with(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[torch.Tensor]]:
    """What lies in the model when each client scores it."""
    seen: dict[int, list[torch.Tensor]] = {}
    score = local_training.Local.score

    def looking(self: Any, origins: np.ndarray) -> Any:
        seen[self.client] = found(self.model)
        return score(self, origins)

    monkeypatch.setattr(local_training.Local, "score", looking)
    return seen


def test_each_holder_forecasts_with_what_it_trained_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `nodes` an operator has some sensors; what its copy of the run finds is what its client found."""
    series, federation = waves(nodes=7), settings(kind="nodes")
    seen = scored_with(monkeypatch)
    federate(series, federation, tmp_path / "run")
    assert federation.partition is not None
    run = Run.load(tmp_path / "run")
    for client, holding in enumerate(partition(series, federation.run.window, federation.partition, 0)):
        run.prepare(holding.series(series))
        assert same(found(run.model), seen[client])
    assert not same(seen[0], seen[1])


@pytest.mark.parametrize("kind", ["windows", "nodes"])
def test_pooled_trains_scores_and_saves_with_what_the_pool_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    series, federation = waves(nodes=7), settings("pooled", kind)
    seen = scored_with(monkeypatch)
    metrics = federate(series, federation, tmp_path / "run")
    model, _ = by_hand(tmp_path / "run", series, federation)
    for client in range(3):
        assert same(seen[client], found(model)), client
    saved = load_file(tmp_path / "run" / "best.safetensors")
    assert same([saved[name] for name in LOOKED_UP], found(model))
    assert not (tmp_path / "run" / "holder.json").exists()
    run = Run.load(tmp_path / "run")
    assert np.isfinite(run.forecast(series.cut(220, 240))["c0"]).all()  # recent readings are enough, as for any run
    if kind == "windows":  # under `nodes` clients score without the others' readings
        assert federation.partition is not None
        holdings = partition(series, federation.run.window, federation.partition, 0)
        every = np.sort(np.concatenate([holding.parts.test for holding in holdings]))
        assert run.evaluate(series, every).figures()["rmse"] == pytest.approx(metrics["global"]["rmse"], rel=1e-6)


def test_a_client_that_is_asked_to_score_first_finds_what_the_pool_finds() -> None:
    """As in a process that never trained: a worker under Ray, or a run that is taken up at its end."""
    series, federation = waves(nodes=7), settings("pooled", "nodes")
    window, parts = federation.run.window, split(waves(), federation.run.window)
    scaler = fit_scaler(series, parts.train, window.input, window.horizon)
    model = make_model("pdformer", federation.run.settings, Task.of(series, window.input, window.horizon))
    windows = Windows(series, scaler, window.input, window.horizon)
    local = local_training.Local(model, windows, federation.compose(), federation.run.training)
    pool = Pool(parts.train, np.arange(7))
    local.enter(1, 1, 0, replace(parts, train=parts.train[:20]), np.array([2, 3]), scaler, {}, {}, pool)
    assert local.windows.mask.any(dim=0).squeeze(-1).tolist() == [False, False, True, True, False, False, False]
    expected = make_model("pdformer", federation.run.settings, Task.of(series, window.input, window.horizon))
    assert isinstance(expected, PDFormer)
    expected.prepare(Windows(series, scaler, window.input, window.horizon), parts.train)
    assert same(found(model), found(expected))


def test_pooled_with_a_scaler_for_each_client_is_refused() -> None:
    with pytest.raises(InputError, match=r"federation\.scaler = 'own'.*one scaler"):
        settings("pooled", scaler="own")


def test_where_each_client_has_its_own_scaler_a_forecast_fits_one(tmp_path: Path) -> None:
    series, federation = waves(), settings(model="f2stnet", scaler="own")
    federate(series, federation, tmp_path / "run")
    run = Run.load(tmp_path / "run")
    with pytest.raises(InputError, match="leaves scaler to be found"):
        Stream(run, str(series.start))
    train = split(series, replace(federation.run.window, purge=True)).train
    windows = Windows(series, fit_scaler(series, train, 6, 3), 6, 3, days=federation.run.window.days)
    got = run.predict(series, np.array([230]))
    np.testing.assert_array_equal(got, predict(run.model, windows, np.array([230])))


def test_among_clients_with_data_of_their_own_training_ends_at_the_federations_cut() -> None:
    like, federation = waves().cut(0, 0), configure_federation("fedavg", "pdformer", partitioned=False, clients=2)
    model = make_model("pdformer", federation.run.settings, Task.of(like, 12, 12))
    cuts = json.dumps(["2024-01-05T03:00:00", "2024-01-08T00:00:00"])
    saved, left = saved_beside(model, federation, like, Scaler(np.zeros(1), np.ones(1)), cuts)
    assert left is not None
    assert left.training_before == np.datetime64("2024-01-05T03:00:00")
    assert left.buffers == LOOKED_UP
    assert set(model.state_dict()) - set(saved) == set(LOOKED_UP)


def test_a_model_that_looks_nothing_up_leaves_no_note(tmp_path: Path) -> None:
    federate(waves(), settings(model="f2stnet"), tmp_path / "run")
    assert not (tmp_path / "run" / "holder.json").exists()
    assert Run.load(tmp_path / "run").holder is None

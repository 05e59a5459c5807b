"""The client app of a deployment: the operator hears what the coordinator is answered."""

from pathlib import Path

import pandas as pd
import pytest
from flwr.app import Context, RecordDict

from f2stnet.federated.apps import _own_client, bundle
from f2stnet.federated.engines.supernode import Client, ClientConfig
from f2stnet.federated.manifest import to_manifest
from f2stnet.federated.settings import configure_federation
from small import waves


def test_an_operator_whose_data_is_refused_is_told_why(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    series = waves()
    stamps = pd.Index(series.stamps, name="time")
    pd.DataFrame({"s0": series.values[:, 0, 0], "zoo": 1.0}, index=stamps).to_csv(tmp_path / "south.csv")
    data = {"source": str(tmp_path / "south.csv")}
    client = Client.make(tmp_path / "south", ClientConfig("south"), data)
    federation = configure_federation("fedavg", "stid", partitioned=False, clients=2)
    told = bundle(federation, to_manifest(waves(channels=1)), "token", tmp_path / "run")
    context = Context(1, 2, {"client": str(client.toml)}, RecordDict(), {"federation": told})
    answer = _own_client(context)[0].describe(0).config_records["answer"]
    said = capsys.readouterr().err
    assert answer["refusal"]
    assert said == f"south cannot take part: {answer['refusal']}\n"

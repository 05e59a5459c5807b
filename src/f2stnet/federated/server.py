"""The server's side of a federation: the rounds, their checkpoints, and the end.

It works through a Flower Grid alone, so the same function serves clients in its own process, under Ray, and behind a
SuperLink.
"""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

import torch
from flwr.app import ConfigRecord, MessageType, RecordDict
from flwr.serverapp import Grid

from f2stnet.data.windows import Task
from f2stnet.errors import InputError
from f2stnet.federated.aggregate import Arrays, Rows, as_arrays
from f2stnet.federated.declared import TALLIED
from f2stnet.federated.fairness import fairness
from f2stnet.federated.folder import FederationFolder, Standing
from f2stnet.federated.manifest import to_manifest
from f2stnet.federated.methods import Method
from f2stnet.federated.methods.parts import POWERS
from f2stnet.federated.records import from_record, to_record
from f2stnet.federated.registration import register, send
from f2stnet.federated.replies import LARGEST_LOSS, silence
from f2stnet.federated.settings import Federation, FederationConfig
from f2stnet.federated.shared_model import saved_beside, travelling
from f2stnet.federated.strategy import WeightedStrategy
from f2stnet.files import reading
from f2stnet.layers.embeddings import declared
from f2stnet.models import count_parameters, make_model
from f2stnet.series import GraphSeries
from f2stnet.training.metrics import Tally
from f2stnet.training.trainer import Listener, silent, under

log = logging.getLogger("f2stnet.federated")


class Server:
    def __init__(
        self, grid: Grid, federation: Federation, like: GraphSeries, place: FederationFolder, listen: Listener = silent
    ) -> None:
        self.grid, self.federation, self.like, self.place, self.listen = grid, federation, like, place, listen
        self.config: FederationConfig = federation.config
        self.method: Method = federation.compose()
        self.standing = Standing()

    def run(self, resume: bool = False) -> dict[str, Any]:
        """All rounds; returns what `metrics.json` holds."""
        self.registered = register(self.grid, self.federation, self.like)
        arrays = self._start(resume)
        self.listen("start", self._start_facts(arrays))
        while not self.standing.ended:
            arrays = self._round(arrays)
        best = self.place.run.best() if (self.place.path / "best.safetensors").is_file() else {}
        weights = {name: best.get(name, array) for name, array in arrays.items()}
        metrics = self._result(weights)
        self.place.run.write_metrics(metrics)
        self.listen("end", metrics)
        return metrics

    def _start(self, resume: bool) -> Arrays:
        run, known = self.federation.run, self.registered
        torch.manual_seed(run.seed)
        task = Task.of(self.like, run.window.input, run.window.horizon, run.window.days)
        model = make_model(run.model, run.settings, task)
        self.parameters = count_parameters(model)
        if not self.parameters:
            raise InputError(f"model {run.model!r} has nothing to train, so there is nothing to federate")
        self.template, left = saved_beside(model, self.federation, self.like, known.scaler, known.config["cuts"])
        whole = all(len(nodes) == len(self.like.nodes) for nodes in known.sensors.values())
        rows = Rows(
            of_nodes=frozenset() if whole else frozenset(declared(model, "node_rows")),
            owners=known.sensors,
            of_others=frozenset(declared(model, "table_rows")) if self.config.rows == "owners" else frozenset(),
        )
        self.strategy = WeightedStrategy(
            self.method.weighting,
            self.method.optimiser,
            self.method.exchanges,
            self.method.combiner,
            seed=run.seed,
            minimum=1 if self.method.pooled else min(self.config.minimum, self.federation.clients),
            clients={node: client for client, node in known.node.items()},
            examples={client: sizes[0] for client, sizes in known.windows.items()},
            scales={client: scale ** POWERS.get(run.training.loss, 1) for client, scale in known.scale.items()},
            rows=None if self.method.pooled else rows,
            shares_weights=self.method.shares_weights,
            trainers=(0,) if self.method.pooled else None,
            names=known.name,
            largest_loss=LARGEST_LOSS,
            shown=("initial-loss", "train-loss"),
            statistics=set(travelling(model)) - {name for name, _ in model.named_parameters()},
            fraction_train=self.config.fraction,
        )
        arrays = as_arrays(travelling(model))
        if not resume:
            self.place.run.start(run, self.like, known.scaler)
            self.place.write_federation(self.federation, to_manifest(self.like))
        if left is not None:
            left.write(self.place.path)
        saved = self.place.saved() if resume else None
        if saved is None:
            self.place.cut_rounds(0)
            return arrays
        tensors, self.standing = saved
        with reading(self.place.checkpoint):
            self._restore(tensors, self.standing.weighting)
        self.place.cut_rounds(self.standing.round)
        return under("model.", tensors)

    # A round

    def _round(self, arrays: Arrays) -> Arrays:
        at, began = self.standing, time.perf_counter()
        number = at.round + 1
        rate = self._rate(number - 1)
        # Copies, as optimisers step in place.
        before = {name: array.clone() for name, array in self._state({}).items()}, self.method.weighting.state()
        marks = {"best-round": at.best_round, "counted-round": at.round - at.skipped}
        config = ConfigRecord({"rate": rate, **marks, **self.registered.config})
        messages = self.strategy.configure_train(number, to_record(arrays), config, self.grid)
        replies = list(self.grid.send_and_receive(messages, timeout=self.config.timeout))
        new, metrics = self.strategy.aggregate_train(number, replies)
        at.round, at.refused = number, at.refused + len(self.strategy.last["refused"])
        proposed = None if new is None else from_record(new)
        validation = None if proposed is None else self._evaluate(proposed, "validation", number)
        skipped = validation is None
        at.skipped = at.skipped + 1 if skipped else 0
        at.unscored = at.unscored + (proposed is not None) if skipped else 0
        if proposed is not None and skipped:  # a model that nobody could score is none to go on from
            log.warning("round %d skipped: no client could score the new model", number)
            self._restore(*before)
        elif proposed is not None:
            arrays = proposed
        line: dict[str, Any] = {"round": number, "rate": rate, "skipped": skipped}
        line |= {key: value for key, value in self.strategy.last.items() if key not in ("weights", "refused")}
        line["weights"] = {str(client): weight for client, weight in self.strategy.last["weights"].items()}
        line["refused"] = {str(client): why for client, why in self.strategy.last["refused"].items()}
        line["train_loss"] = None if metrics is None else metrics.get("train-loss")
        if validation is not None:
            line["validation"] = validation
            loss = self._chosen_loss()
            if loss < at.best_loss:
                at.best_loss, at.best_round = loss, number
                self.place.run.save_best(self.template | arrays)
        at.ended = self._reason_to_end()
        at.weighting = self.method.weighting.state()
        line |= {"best_round": at.best_round, "seconds": round(time.perf_counter() - began, 4)}
        at.seconds += time.perf_counter() - began
        self.place.append_round(line)
        self.place.save(self._state(arrays), at)
        self.listen("round", line | {"of": self.config.rounds})
        return arrays

    def _chosen_loss(self) -> float:
        """Over all clients, whoever did not answer with the loss it had last: rounds are compared over the same."""
        scores = list(self.standing.scores.values())
        if self.config.best == "worst":
            return max((loss for loss, _ in scores), default=math.inf)
        labels = sum(count for _, count in scores)
        return sum(loss * count for loss, count in scores) / labels if labels else math.inf

    def _evaluate(self, arrays: Arrays, part: str, done: int) -> dict[str, Any] | None:
        """Each client's errors on one of its parts, all clients' together, how evenly they are spread, and who is
        missing. None where nobody could score the model."""
        record = RecordDict({
            "arrays": to_record(arrays),
            "config": ConfigRecord({"part": part, "server-round": done, **self.registered.config}),
        })  # fmt: skip
        if self.strategy.beside:
            record["beside"] = to_record(self.strategy.beside)
        client_of = {node: client for client, node in self.registered.node.items()}
        tallies: dict[int, Tally] = {}
        losses: dict[int, float | None] = {}  # None: no labels to score, or no number
        replies = send(self.grid, record, client_of, MessageType.EVALUATE, self.config.timeout)
        missing = dict.fromkeys(client_of.values(), silence(replies, client_of))
        for reply in replies:
            client = client_of.get(reply.metadata.src_node_id)
            if client is None:
                continue
            try:
                if reply.has_error():
                    raise ValueError(reply.error.reason)
                found: Any = reply.content["metrics"]
                tallies[client] = _tally(found, self.federation.run.window.horizon)
                loss = float(found["loss"])
                losses[client] = loss if math.isfinite(loss) else None
                del missing[client]
            except (KeyError, TypeError, ValueError) as wrong:
                missing[client] = str(wrong)
        unscored = {self.registered.name[client]: why for client, why in sorted(missing.items())}
        for name, why in unscored.items():
            log.warning("evaluation: %s left out: %s", name, why)
        clients = {
            self.registered.name[client]: tallies[client].figures() | {"loss": losses[client]}
            for client in sorted(tallies)
        }
        if not tallies:
            return None
        every = list(tallies.values())
        together = sum(every[1:], start=every[0])
        scored = [(loss, float(tallies[client].count.sum())) for client, loss in losses.items() if loss is not None]
        labels = sum(count for _, count in scored)
        mean = sum(loss * count for loss, count in scored) / labels if labels else None
        if part == "validation":
            self.standing.scores |= {
                self.registered.name[client]: [loss, float(tallies[client].count.sum())]
                for client, loss in sorted(losses.items())
                if loss is not None
            }
        found = {"global": together.summary() | {"loss": mean}, "clients": clients, "fairness": fairness(clients)}
        return found | ({"missing": unscored} if unscored else {})

    def _rate(self, t: int) -> float:
        rate = self.federation.run.training.learning_rate
        if self.config.rate == "cosine":
            rate *= 0.5 * (1 + math.cos(math.pi * t / self.config.rounds))
        elif self.config.rate == "decay":
            rate *= self.config.decay**t
        return rate

    def _reason_to_end(self) -> str:
        at = self.standing
        if at.skipped >= self.config.skips:
            causes = {
                "too few usable answers": at.skipped > at.unscored,
                "no usable score of the new model from any client": at.unscored > 0,
            }
            return f"{at.skipped} rounds in a row had {' or '.join(what for what, so in causes.items() if so)}"
        if self.config.patience and at.round - at.best_round >= self.config.patience:
            return f"no better round for {self.config.patience} rounds"
        return "all rounds done" if at.round >= self.config.rounds else ""

    def _state(self, arrays: Arrays) -> Arrays:
        """What `server.safetensors` holds: the model, and of the method what is arrays."""
        tensors = {f"model.{name}": array for name, array in arrays.items()}
        if self.method.optimiser is not None:
            tensors |= {f"optimiser.{name}": array for name, array in self.method.optimiser.state().items()}
        return tensors | {f"beside.{name}": array for name, array in self.strategy.beside.items()}

    def _restore(self, tensors: Arrays, weighting: dict[str, Any]) -> None:
        """The method as it was when `_state` and its weighting told what they remember."""
        self.method.weighting.restore(weighting)
        if self.method.optimiser is not None:
            self.method.optimiser.restore(under("optimiser.", tensors))
        self.strategy.beside = under("beside.", tensors)

    # The end

    def _result(self, weights: Arrays) -> dict[str, Any]:
        """The test part is looked at here, once, with the weights of the best round."""
        at, run = self.standing, self.federation.run
        test = self._evaluate(weights, "test", at.best_round)
        if test is None:
            raise InputError("no client could score the model on its test part")
        lines = self.place.rounds()
        validation = next((line["validation"] for line in lines if line["round"] == at.best_round), None)
        partition = self.federation.to_table().get("partition")
        return {
            "data": self.like.name,
            "model": run.model,
            "method": self.federation.method,
            "shared_model": _shared_model(self.method),
            "partition": partition or {"kind": "own", "clients": self.federation.clients},
            "windows": self.registered.sizes(),
            "seed": run.seed,
            "unit": self.like.unit,
            "params": self.parameters,
            "rounds": at.round,
            "best_round": at.best_round,
            "ended": at.ended,
            "refused": at.refused,
            "seconds": round(at.seconds, 3),
            **test,
            "validation": validation,
        }

    def _start_facts(self, arrays: Arrays) -> dict[str, Any]:
        known = self.registered
        return {
            "parameters": self.parameters,
            "windows": known.sizes(),
            "rounds": self.config.rounds,
            "done": self.standing.round,
            "folder": str(self.place.path),
            "bytes": sum(array.numel() * array.element_size() for array in arrays.values()),
        }


def _shared_model(method: Method) -> str:
    """What the folder's weights are good for."""
    if not method.shares_weights:
        return "none"
    return "beside personal ones" if any(objective.personal for objective in method.objectives) else "trained"


def _tally(metrics: Mapping[str, Any], horizon: int) -> Tally:
    """A client's sums a step, as a Tally of one node and one target."""
    columns = {name: torch.tensor(metrics[name], dtype=torch.float64) for name in TALLIED}
    for name, column in columns.items():
        if column.shape != (horizon,) or not bool(torch.isfinite(column).all()):
            raise ValueError(f"metric {name!r}: expected {horizon} finite numbers")
    return Tally(**{name: column.view(-1, 1, 1) for name, column in columns.items()})

"""FFA in a Flower app that has nothing else of f2stnet: five clients learn one line, each from its own points.

python examples/flower/fair_app.py          (needs `pip install 'f2stnet[ray]'`)
"""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from f2stnet.federated import FFA

CLIENTS, ROUNDS = 5, 10


def points(client: int, count: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    """Client k has points around the line y = 3x − 2, farther out and noisier than those of client k − 1."""
    random = torch.Generator().manual_seed(client)
    x = torch.rand(count, 1, generator=random) + client
    return x, 3 * x - 2 + 0.1 * client * torch.randn(count, 1, generator=random)


client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    x, y = points(int(context.node_config["partition-id"]))
    model = torch.nn.Linear(1, 1)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        optimiser.zero_grad()
        torch.nn.functional.l1_loss(model(x[:40]), y[:40]).backward()
        optimiser.step()
    with torch.no_grad():
        loss = torch.nn.functional.l1_loss(model(x[40:]), y[40:]).item()
    metrics = MetricRecord({"num-examples": 40, "loss": loss})  # `loss`: what FFA weighs by, on points held back
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    torch.manual_seed(0)
    strategy = FFA(initial=0.5, maximum=0.9, slope=0.05, fraction_evaluate=0.0)
    result = strategy.start(grid, ArrayRecord(torch.nn.Linear(1, 1).state_dict()), num_rounds=ROUNDS)
    line = {name: round(float(array.numpy().item()), 2) for name, array in result.arrays.items()}
    weights = {client: round(weight, 3) for client, weight in strategy.last["weights"].items()}
    print(f"the line: {line}; weights of the last round, λ = {strategy.last['lambda']:.2f}: {weights}")


if __name__ == "__main__":
    run_simulation(server_app, client_app, num_supernodes=CLIENTS)

"""What leaves every client, whatever the method; a method's own list (`compose(name).sends`) comes on top.

Flower is not imported here, so that anybody can read the list quickly.
"""

from f2stnet.federated.methods.parts import Sent

TALLIED = ("absolute", "square", "count", "percent", "percent_count", "absolute_all", "square_all", "count_all")
MESSAGES = (
    Sent("answer.name", "text", "the client's name"),
    Sent("answer.refusal", "text", "why its data does not fit the manifest, if it does not"),
    Sent("metrics.number", "one number", "which part of a simulated partition it is"),
    Sent("metrics.start", "one number", "stamp of its first step"),
    Sent("metrics.steps", "one number", "how many steps it has"),
    Sent("metrics.windows", "3 numbers", "training, validation and test windows"),
    Sent("metrics.sensors", "a number a sensor it holds", "which sensors it holds, where not all"),
    Sent(
        "metrics.kinds", "8 numbers at most", "which kinds of day its training windows meet: Monday … Sunday, holiday"
    ),
    Sent("metrics.sums", "3 numbers a channel", "count, sum and sum of squares of its training values"),
    *(Sent(f"metrics.{name}", "a number a forecast step", "sum of its errors, or count of labels") for name in TALLIED),
    Sent("metrics.loss", "one number", "loss of the shared model on the part that was asked for"),
)

"""Settings that make each model small enough for tests; a model that is missing here is tested as it is."""

from typing import Any

SMALL: dict[str, dict[str, Any]] = {
    "ddgcrn": {"width": 16, "embedding": 4},
    "lightcts": {"width": 16, "heads": 4, "layers": 2},
    "multispans": {"width": 16, "layers": 1, "heads": 4, "feed_forward": 32, "hops": 1},
    "pdformer": {"width": 16, "layers": 2, "geographic_heads": 2, "semantic_heads": 1, "temporal_heads": 1, "skip": 32},
    "pdg2seq": {"width": 16, "embedding": 4, "moment": 4},
    "spot-mamba": {"width": 8, "feed_forward": 32, "walks": 1, "length": 5, "layers": 1},
    "staeformer": {
        "value_width": 4,
        "slot_width": 4,
        "day_width": 4,
        "adaptive_width": 8,
        "feed_forward": 32,
        "layers": 1,
    },
    "stg-mamba": {"blocks": 2, "state": 4},
    "cy2mixer": {"value_width": 4, "slot_width": 4, "day_width": 4, "adaptive_width": 8, "layers": 1},
    "stg-ncde": {"width": 16, "embedding": 4, "recompute": False},
}

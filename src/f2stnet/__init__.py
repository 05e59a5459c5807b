"""F2STNet: forecasts for sensors on a graph."""

__version__ = "0.1.0"

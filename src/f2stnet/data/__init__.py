"""Where a GraphSeries comes from and how it is cut. `load` is the door."""

from f2stnet.data.sources import Source, formats, load, resolve, sources
from f2stnet.data.table import read_recent

__all__ = ["Source", "formats", "load", "read_recent", "resolve", "sources"]

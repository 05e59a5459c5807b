"""What a client keeps for itself between rounds: MOON's previous model, Ditto's personal one, a generator.

One file a round. A server that was killed asks for some rounds again; each finds the state as it was before it, so a
resumed run ends as one that was never interrupted.
"""

from pathlib import Path

from safetensors.torch import load_file, save_file

from f2stnet.federated.aggregate import Arrays
from f2stnet.files import write_atomically


class ClientState:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def before(self, t: int) -> Arrays:
        """As it was when `t` rounds were done."""
        known = [number for number in self._rounds() if number <= t]
        return load_file(self._file(max(known))) if known else {}

    def save(self, t: int, kept: Arrays, best: int, counted: int) -> None:
        """After a round, `t` being done with it. The one before, that of the best round and that of the last round that
        counted stay, too."""
        if not kept:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in kept.items()}
        write_atomically(self._file(t), lambda target: save_file(plain, target))
        # A server may come back at its last checkpoint, which is at most one round older, or, where it gave up after
        # rounds that did not count, at the last that did.
        earlier = [number for number in self._rounds() if number < t]
        needed = {max((number for number in earlier if number <= last), default=0) for last in (t - 1, best, counted)}
        for number in set(earlier) - needed:
            self._file(number).unlink()

    def _rounds(self) -> list[int]:
        return sorted(int(path.stem.split("-")[1]) for path in self.folder.glob("round-*.safetensors"))

    def _file(self, t: int) -> Path:
        return self.folder / f"round-{t}.safetensors"

"""The public data sets: which files they have, where those come from, and where they lie on this machine.

A file's id is the one git gives its bytes, so a download can be checked. A file without id has no source that
was checked: whoever has it puts it in place.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from f2stnet.errors import InputError
from f2stnet.files import cache_dir

_GITHUB = "https://raw.githubusercontent.com"
_ASTGCN = f"{_GITHUB}/Davidham3/ASTGCN-2019-mxnet/d5d40645fa45471f2b473fc49a29ec3f0a993c6d/data"
_PVCGN = f"{_GITHUB}/HCPLab-SYSU/PVCGN/c09eaa0c23857b2e0017a1bd67906e3bcbc422b5/data"
_DCRNN = f"{_GITHUB}/liyaguang/DCRNN/602afd9d767d3aa1c9b3eac51710d6aeee12c227/data/sensor_graph"
_PM25_GNN = f"{_GITHUB}/shuowang-ai/PM2.5-GNN/fb861a5faceee6d6da357a239d27a66d7750900c/data"


@dataclass(frozen=True)
class PublicFile:
    name: str
    origin: str  # an address, or in words where no address was checked
    blob: str | None = None  # the git blob id


PUBLIC: dict[str, tuple[PublicFile, ...]] = {
    "pems03": (
        PublicFile("pems03.npz", "the STSGCN release, PEMS03.npz"),
        PublicFile("distance.csv", "the STSGCN release, PEMS03.csv"),
        PublicFile("pems03.txt", "the STSGCN release, PEMS03.txt"),
    ),
    "pems04": (
        PublicFile("pems04.npz", f"{_ASTGCN}/PEMS04/pems04.npz", "a1a39eac4b86963b1ac22874fd1cc693eb642cd2"),
        PublicFile("distance.csv", f"{_ASTGCN}/PEMS04/distance.csv", "2569623e29fa9685ae230246a20f31741ee6cf01"),
    ),
    "pems07": (
        PublicFile("pems07.npz", "the STSGCN release, PEMS07.npz"),
        PublicFile("distance.csv", "the STSGCN release, PEMS07.csv"),
    ),
    "pems08": (
        PublicFile("pems08.npz", f"{_ASTGCN}/PEMS08/pems08.npz", "f5f3e84a00417573aa8487fe1e9e8cd13c6026c8"),
        PublicFile("distance.csv", f"{_ASTGCN}/PEMS08/distance.csv", "cf11bea3ff4229d2d900fdcf1085828d25429c88"),
    ),
    "metr-la": (
        PublicFile("adj_mx.pkl", f"{_DCRNN}/adj_mx.pkl", "a15a5904a83e7f13fe94d32fcd45c00f163ffd97"),
        PublicFile("metr-la.h5", "the README of GitHub liyaguang/DCRNN links it"),
    ),
    "pems-bay": (
        PublicFile("adj_mx_bay.pkl", f"{_DCRNN}/adj_mx_bay.pkl", "6651951a08ab101c818b1f27ba9a908d3ad56539"),
        PublicFile("pems-bay.h5", "the README of GitHub liyaguang/DCRNN links it"),
    ),
    "hzmetro": (PublicFile("data.tar.gz", f"{_PVCGN}/data.tar.gz", "f3d2db18671c9f9adc031e25b201d72d83c4d796"),),
    "shmetro": (PublicFile("data.tar.gz", f"{_PVCGN}/data.tar.gz", "f3d2db18671c9f9adc031e25b201d72d83c4d796"),),
    "knowair": (
        PublicFile("city.txt", f"{_PM25_GNN}/city.txt", "c37e481ea7d95c5f068b67eb02b37532cafeb1ca"),
        PublicFile("KnowAir.npy", "the README of GitHub shuowang-ai/PM2.5-GNN links it"),
    ),
}


def folders(name: str) -> list[Path]:
    """Where a set's files may lie; the first is where downloads go."""
    root = os.environ.get("F2STNET_DATA")
    cached = cache_dir("data") / name
    return [Path(root) / name, cached] if root else [cached]


def locate(name: str, choices: Sequence[str], path: str | None = None) -> Path:
    """The first of the files `choices` in the folder `path`, or where the set lies; case does not count."""
    found = find(name, choices, path)
    if found is not None:
        return found
    there = Path(path) if path else folders(name)[0]
    origin = next((file for file in PUBLIC.get(name, ()) if file.name == choices[0]), None)
    how = f"f2stnet data get {name}" if origin is None or origin.blob else f"source: {origin.origin}"
    also = f" (or {', '.join(choices[1:])})" if len(choices) > 1 else ""
    raise InputError(f"{there / choices[0]}: no such file{also}; put it there ({how})")


def find(name: str, choices: Sequence[str], path: str | None = None) -> Path | None:
    for folder in [Path(path)] if path else folders(name):
        here = {entry.name.lower(): entry for entry in folder.iterdir()} if folder.is_dir() else {}
        for choice in choices:
            if choice.lower() in here:
                return here[choice.lower()]
    return None

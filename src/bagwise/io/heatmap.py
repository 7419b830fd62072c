"""Scores of tiles in the formats that viewers of slides read: a picture, GeoJSON for QuPath, h5 beside positions."""

import io
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import IO, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bagwise._files import PathLike, write_whole

Floats = NDArray[np.float64]
_DECIMALS = 6  # of scores in GeoJSON
_DARK, _LIGHT = np.array([176, 70, 28]), np.array([251, 246, 236])


def write_geojson(
    path: PathLike, coords: Floats, tile_size: float, scores: Mapping[str, Floats], *, level: float = 0.5
) -> None:
    """Every tile as a square with its scores as measurements: a FeatureCollection as RFC 7946 and QuPath have it.

    Tiles whose first score is above ``level`` are classified as positive, the others as negative. Scores have six
    decimals here, so that the file stays small; ``write_scores`` keeps all digits.
    """
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]) * tile_size
    rings = coords[:, None, :] + corners
    rings = rings.astype(np.int64) if np.array_equal(rings, np.round(rings)) else rings  # 256 is shorter than 256.0
    first = next(iter(scores.values()))
    columns = {name: np.round(values, _DECIMALS).tolist() for name, values in scores.items()}
    colours = np.round(_LIGHT + first[:, None] * (_DARK - _LIGHT)).astype(int).tolist()
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [ring]},
            "properties": {
                "objectType": "detection",
                "classification": {"name": "positive" if first[tile] > level else "negative", "color": colours[tile]},
                "measurements": {name: values[tile] for name, values in columns.items()},
            },
        }
        for tile, ring in enumerate(rings.tolist())
    ]
    whole = {"type": "FeatureCollection", "features": features}
    text = json.dumps(whole, allow_nan=False, separators=(",", ":"))
    write_whole(path, lambda stream: stream.write(text.encode("utf-8")))


def write_figure(figure: Any, path: PathLike) -> None:
    """A matplotlib figure as PNG."""
    write_whole(path, lambda stream: figure.savefig(stream, format="png", dpi=110))


def write_scores(path: PathLike, coords: Floats, scores: Mapping[str, Floats], notes: Mapping[str, Any]) -> None:
    """Scores as arrays beside ``coords``, one entry per tile, with ``notes`` as attributes of the file."""

    def write(stream: IO[bytes]) -> None:
        whole = io.BytesIO()
        with h5py.File(whole, "w") as file:
            for name, values in {"coords": coords, **scores}.items():
                file.create_dataset(name, data=values, compression="gzip", shuffle=True)
            file.attrs.update({"written_by": f"bagwise {version('bagwise')}", **notes})
        stream.write(whole.getbuffer())

    write_whole(path, write)

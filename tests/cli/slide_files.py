"""Slides of tiles on a grid."""

import numpy as np

GRID = np.stack(np.meshgrid(np.arange(4), np.arange(3)), axis=-1).reshape(-1, 2) * 256

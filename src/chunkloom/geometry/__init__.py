"""Voxels and the world: `Box` (whole voxels), `Roi` (nanometres) and `Grid`, which takes one to the other.

Pure arithmetic on tuples of numbers; knows no arrays, files or formats. Axes are z, y, x throughout.
"""

from chunkloom.geometry.box import Box
from chunkloom.geometry.grid import Grid, same_voxel_size
from chunkloom.geometry.roi import Roi

__all__ = ["Box", "Grid", "Roi", "same_voxel_size"]

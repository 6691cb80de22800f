"""Pure functions of arrays: what chain steps and engine ops compute with.

A kernel knows nothing of volumes, chunks, files or chains. It never writes into its input, which may be a
read-only array of a cache. Spatial axes are the last three, z, y, x; leading axes (channels) are treated one
by one.

A kernel with context says how much beside it: `gaussian_halo(sigma)` is the halo of `gaussian(block, sigma)`.
Such a kernel takes a block that is padded by its halo and returns only the voxels whose whole context was
there, so its result is smaller by the halo on both sides. Kernels that need the whole object (labelling,
filling holes) work on the block they get, keep its shape, and say so.
"""

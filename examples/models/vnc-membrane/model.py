"""vnc-membrane: neuron membranes in anisotropic ssTEM of Drosophila nerve cord, as a model script.

Input: 8-bit raw data scaled to -1..1. Output: logits; a sigmoid makes them probabilities.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

input_voxel_size = output_voxel_size = (50, 4.6, 4.6)  # nm; z, y, x as everywhere
input_size, output_size = (14, 168, 168), (10, 128, 128)  # voxels
channels = ["membrane"]
output_channels = len(channels)


class UNet(nn.Module):
    """A 3-D U-Net of valid convolutions: (n, 1, z, y, x) to logits (n, out_channels, z, y, x).

    Nothing is padded or normalized over the tile: an output voxel depends on the input around it alone. The
    input is `context` voxels larger on each side. Tiles whose output begins on multiples of `multiple_of`
    share one pooling grid, so they hold what one pass over the whole array holds.
    """

    def __init__(self, widths, kernels, pools, out_channels=1):
        super().__init__()
        deepest = len(pools)
        self.pools = [tuple(map(int, pool)) for pool in pools]
        self.down = nn.ModuleList()
        self.up = nn.ModuleList()
        for i, (width, kernel) in enumerate(zip(widths, kernels, strict=True)):
            self.down.append(self.two_convs(1 if i == 0 else widths[i - 1], width, kernel))
            if i < deepest:
                self.up.append(self.two_convs(widths[i + 1] + width, width, kernel))
        self.head = nn.Conv3d(widths[0], out_channels, 1)
        # From the deepest level up: what a level and all below it lose on each side, and so how much its
        # skip exceeds what comes up from below.
        self.margins = [(0, 0, 0)] * deepest
        self.context = tuple(k - 1 for k in kernels[deepest])
        self.multiple_of = (1, 1, 1)
        for i in reversed(range(deepest)):
            self.margins[i] = tuple(c * p for c, p in zip(self.context, self.pools[i], strict=True))
            self.context = tuple(m + 2 * (k - 1) for m, k in zip(self.margins[i], kernels[i], strict=True))
            self.multiple_of = tuple(m * p for m, p in zip(self.multiple_of, self.pools[i], strict=True))

    @staticmethod
    def two_convs(inputs, outputs, kernel):
        first, second = nn.Conv3d(inputs, outputs, kernel), nn.Conv3d(outputs, outputs, kernel)
        return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())

    def forward(self, x):
        skips = []
        for convs, pool in zip(self.down, self.pools, strict=False):
            skips.append(convs(x))
            x = nn.functional.max_pool3d(skips[-1], pool)
        x = self.down[-1](x)
        for i in reversed(range(len(self.pools))):
            x = nn.functional.interpolate(x, scale_factor=self.pools[i], mode="nearest")
            crop = [slice(m, -m if m else None) for m in self.margins[i]]
            x = self.up[i](torch.cat([x, skips[i][:, :, crop[0], crop[1], crop[2]]], 1))
        return self.head(x)


model = UNet(
    widths=(16, 48, 96),
    kernels=((1, 3, 3), (1, 3, 3), (3, 3, 3)),
    pools=((1, 2, 2), (1, 2, 2)),
    out_channels=output_channels,
)
model.load_state_dict(load_file(Path(__file__).with_name("model.safetensors")))
model.eval()

"""The network of the sample models, as it is served and as it is trained. It knows nothing of data or files.

The source of `UNet` is written into each model's own `model.py`, so it needs nothing but torch.
"""

from __future__ import annotations

import torch
from torch import nn


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


class CentredConv3d(nn.Conv3d):
    """A convolution whose kernels sum to zero: what it gives does not change with a constant offset of its input."""

    def centred_weight(self) -> torch.Tensor:
        """The kernels less their mean."""
        return self.weight - self.weight.mean((2, 3, 4), keepdim=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As Conv3d does."""
        return nn.functional.conv3d(x, self.centred_weight(), self.bias)


def prepare_for_training(net: UNet) -> None:
    """Centre the first convolution and follow each convolution but the head's by a batch norm, in place."""
    first = net.down[0][0]
    net.down[0][0] = CentredConv3d(1, first.out_channels, first.kernel_size)
    for convs in [*net.down, *net.up]:
        for conv in (convs[0], convs[2]):
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            nn.init.zeros_(conv.bias)
        convs.insert(3, nn.BatchNorm3d(convs[2].out_channels, momentum=0.05))
        convs.insert(1, nn.BatchNorm3d(convs[0].out_channels, momentum=0.05))


def freeze_batch_norm(net: nn.Module) -> None:
    """From now on batch norm uses its running statistics, as the served network does.

    Batch statistics undo changes of a tile's intensity; the last part of training must do without that.
    """
    for module in net.modules():
        if isinstance(module, nn.BatchNorm3d):
            module.eval()


@torch.no_grad()
def fold(trained: UNet, plain: UNet) -> None:
    """Write a trained network into a plain one of the same shape: the same function, its batch norms folded in."""
    for source, target in zip([*trained.down, *trained.up], [*plain.down, *plain.up], strict=True):
        for conv, norm, folded in ((source[0], source[1], target[0]), (source[3], source[4], target[2])):
            weight = conv.centred_weight() if isinstance(conv, CentredConv3d) else conv.weight
            scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            folded.weight.copy_(weight * scale[:, None, None, None, None])
            folded.bias.copy_((conv.bias - norm.running_mean) * scale + norm.bias)
    plain.head.load_state_dict(trained.head.state_dict())
    plain.eval()

"""Trains a sample model of chunkloom on the CPU, measures it on data kept aside, and writes all its files.

    python examples/train_sample_model.py --data PATH/fibsem.zarr

takes about half an hour on one core (`--dtype bfloat16` halves that where the CPU has it), and is deterministic for
one machine, seed, data type and number of threads.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from models.data import TileSource, normalized, read_volume
from models.files import write_model
from models.recipes import RECIPES, Recipe
from models.unet import UNet, fold, freeze_batch_norm, prepare_for_training

REPOSITORY = Path(__file__).resolve().parent.parent
LEARNING_RATE, WEIGHT_DECAY = 2e-3, 1e-2
# Batch norm's statistics are frozen for the last part of the steps.
FREEZE_AFTER = 0.7
# Intensities a user's data may have, as gain and offset on 0..255.
CHANGES = [(0.7, 30), (1.3, -20), (0.5, 100), (0.5, 0)]


def train(recipe: Recipe, raw: np.ndarray, target: np.ndarray, steps: int, seed: int, dtype: torch.dtype) -> UNet:
    """Train on a volume (`raw` uint8 and `target` bool; z, y, x) and return the folded network (float32).

    `dtype` is what convolutions are computed in meanwhile.
    """
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    rng = np.random.default_rng(seed)
    net = UNet(recipe.widths, recipe.kernels, recipe.pools)
    prepare_for_training(net)
    net = net.to(memory_format=torch.channels_last_3d)
    tiles = TileSource.of(raw, target, net.context, recipe)
    optimizer = torch.optim.AdamW(net.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps + 1, pct_start=0.15)
    began, losses = time.monotonic(), []
    for step in range(steps):
        if step == int(FREEZE_AFTER * steps):
            freeze_batch_norm(net)
        data, truth, weight = (torch.from_numpy(a)[None, None] for a in tiles.draw(rng))
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            logits = net(data).float()
        losses_of_voxels = torch.nn.functional.binary_cross_entropy_with_logits(logits, truth, reduction="none")
        loss = (losses_of_voxels * weight).sum() / weight.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if (step + 1) % 100 == 0 or step + 1 == steps:
            mean = float(np.mean(losses[-100:]))
            print(f"step {step + 1} of {steps}: loss {mean:.4f}, {time.monotonic() - began:.0f} s", flush=True)
    plain = UNet(recipe.widths, recipe.kernels, recipe.pools)
    fold(net, plain)
    return plain


def predict(net: UNet, raw: np.ndarray) -> np.ndarray:
    """Logits of a whole volume (uint8 z, y, x), in one pass, with what servers read outside it: 0 after the chain."""
    margin = [(c, c + -n % m) for n, c, m in zip(raw.shape, net.context, net.multiple_of, strict=True)]
    data = torch.from_numpy(np.pad(normalized(raw), margin))
    with torch.no_grad():
        logits = net(data[None, None])[0, 0].numpy()
    return logits[tuple(slice(n) for n in raw.shape)]


def roc_auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """Area under the ROC curve, by ranks (Mann-Whitney); ties count half."""
    from scipy.stats import rankdata

    ranks, truth = rankdata(scores.ravel()), truth.ravel()
    positive = int(truth.sum())
    return float((ranks[truth].sum() - positive * (positive + 1) / 2) / (positive * (truth.size - positive)))


def average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    """The mean, over true voxels, of the precision at their score."""
    ordered = truth.ravel()[np.argsort(-scores.ravel(), kind="stable")]
    return float((np.cumsum(ordered) / np.arange(1, ordered.size + 1))[ordered].mean())


def measure(recipe: Recipe, net: UNet, raw: np.ndarray, target: np.ndarray, trained_x: int) -> dict:
    """What `model.json` and the card say of quality, on the part of the volume kept aside."""
    kept = np.s_[:, :, recipe.held_out_x :]
    truth = target[kept]

    def scores(of: np.ndarray) -> dict:
        logits = predict(net, of)[kept]
        return {
            "roc_auc": round(roc_auc(logits, truth), 4),
            "average_precision": round(average_precision(logits, truth), 4),
        }

    changed = []
    for gain, offset in CHANGES:
        other = np.clip(raw * float(gain) + offset, 0, 255).astype(np.uint8)
        changed.append({"intensity": f"x*{gain:g}{offset:+d}", **scores(other)})
    z, y, _ = raw.shape
    return {
        "held_out": f"x >= {recipe.held_out_x} of {z} x {y} x {raw.shape[2]} voxels",
        "held_out_voxels": int(truth.size),
        "held_out_positive": round(float(truth.mean()), 4),
        "training_voxels": f"Trained on x < {trained_x} of {z} x {y} x {raw.shape[2]} voxels.",
        **scores(raw),
        "changed_intensity": changed,
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Train a sample model on the CPU and write its files.")
    parser.add_argument("--data", type=Path, required=True, help="the data set, e.g. fibsem.zarr with raw and neurons")
    parser.add_argument("--recipe", choices=sorted(RECIPES), default="fibsem-membrane", help="which model to train")
    parser.add_argument("--out", type=Path, help="folder to write (default: the recipe's own)")
    parser.add_argument("--steps", type=int, help="training steps (default: the recipe's)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, tiles and augmentation (default: 0)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default: 1)")
    parser.add_argument(
        "--dtype",
        choices=["float32", "bfloat16"],
        default="float32",
        help="what to compute in; bfloat16 is about twice as fast on CPUs with AVX512-BF16 or AMX (default: float32)",
    )
    arguments = parser.parse_args()
    recipe = RECIPES[arguments.recipe]
    steps = recipe.steps if arguments.steps is None else arguments.steps
    torch.set_num_threads(arguments.threads)
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[arguments.dtype]
    raw, target = read_volume(arguments.data, recipe)
    # The gap: what is read around the part kept aside is not trained on either.
    trained_x = recipe.held_out_x - UNet(recipe.widths, recipe.kernels, recipe.pools).context[2]
    began = time.process_time()
    net = train(recipe, raw[:, :, :trained_x], target[:, :, :trained_x], steps, arguments.seed, dtype)
    minutes = (time.process_time() - began) / 60
    quality = measure(recipe, net, raw, target, trained_x)
    out = arguments.out or REPOSITORY / recipe.folder
    write_model(
        out,
        recipe,
        net,
        quality,
        f"The files here come from `--seed {arguments.seed} --steps {steps} --threads {arguments.threads} "
        f"--dtype {arguments.dtype}`: {minutes:.0f} minutes of one CPU's time.",
    )
    print(f"kept aside: ROC AUC {quality['roc_auc']}, average precision {quality['average_precision']}; wrote {out}")


if __name__ == "__main__":
    main()

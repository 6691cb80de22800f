"""Adapters that PEFT itself wrote; run by `./run test-bioimage`, for PEFT is not among the test packages."""

from __future__ import annotations

import numpy as np
import pytest

from chunkloom.models.registry import build_model

torch = pytest.importorskip("torch", reason="needs the torch extra")
peft = pytest.importorskip("peft", reason="needs peft: ./run test-bioimage")
from models import made  # noqa: E402


def test_an_adapter_that_peft_wrote_gives_what_peft_gives(tmp_path):
    trained = torch.nn.Module()
    trained.net = made.network()  # wrapped, as a trainer does
    trained.forward = lambda x: trained.net(x)
    config = peft.LoraConfig(r=2, lora_alpha=6, target_modules=["0", "3"], init_lora_weights=False)
    adapted = peft.get_peft_model(trained, config).eval()
    adapted.save_pretrained(tmp_path / "adapter")
    base = {"type": "script", "script_path": str(made.script(tmp_path))}
    block = np.random.default_rng(2).random((1, *made.INPUT), dtype=np.float32)
    loaded = build_model(
        {"type": "finetune", "lora_adapter_path": str(tmp_path / "adapter"), "base_model": base}
    ).load()
    with torch.no_grad():
        expected = trained.net(torch.from_numpy(block)[None])[0].numpy()
    assert np.abs(loaded.forward(block) - expected).max() <= 1e-5
    plain = build_model(base).load().forward(block)
    assert np.abs(plain - expected).max() > 0.1

"""Five networks as ONNX files, with random weights and what torch computes of them: no download.

    python -m benchmarks.exported FOLDER [NAME …] [--batch N]

NAME-bN.onnx and NAME-bN.npz, for `benchmarks.networks`: ResNet-50, MobileNet-V2 and r3d-18
(torchvision), BERT-base with 128 words (transformers), and the generator of DCGAN for 64 x 64
pixels (Radford et al., ICLR'16). Weights are those of torch's initializers for a fixed seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

WORDS: Final = 128


def _vision(name: str) -> Any:
    from torchvision import models  # noqa: PLC0415

    return getattr(models.video if name.startswith("r3d") else models, name)(weights=None)


def _generator() -> Any:
    from torch import nn  # noqa: PLC0415

    layers: list[Any] = []
    widths = (100, 512, 256, 128, 64)
    for n, (given, made) in enumerate(pairwise(widths)):
        step = (1, 0) if n == 0 else (2, 1)
        layers += [nn.ConvTranspose2d(given, made, 4, *step, bias=False)]
        layers += [nn.BatchNorm2d(made), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh())


def _encoder() -> Any:
    import torch  # noqa: PLC0415
    from transformers import BertConfig, BertModel  # noqa: PLC0415

    class Encoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            plain = BertConfig(attn_implementation="eager")
            self.bert = BertModel(plain, add_pooling_layer=False)

        def forward(self, ids: Any) -> Any:
            return self.bert(input_ids=ids, attention_mask=torch.ones_like(ids))[0]

    return Encoder()


NETWORKS: Final[dict[str, tuple[Callable[[], Any], tuple[int, ...]]]] = {
    "bert": (_encoder, (WORDS,)),
    "dcgan": (_generator, (100, 1, 1)),
    "mobilenet_v2": (lambda: _vision("mobilenet_v2"), (3, 224, 224)),
    "resnet3d_18": (lambda: _vision("r3d_18"), (3, 16, 112, 112)),
    "resnet50": (lambda: _vision("resnet50"), (3, 224, 224)),
}
"""For each network what makes it in torch, and the shape of one input."""


def module(name: str) -> Any:
    """A network in torch; the same each time."""
    import torch  # noqa: PLC0415

    torch.manual_seed(0)
    return NETWORKS[name][0]().eval()


def export(name: str, batch: int, folder: Path) -> Path:
    """Write a network and what it computes; returns the path of the first."""
    import torch  # noqa: PLC0415

    rng, shape = np.random.default_rng(0), (batch, *NETWORKS[name][1])
    x = rng.integers(0, 999, shape) if name == "bert" else rng.standard_normal(shape).astype("f")
    network, given = module(name), torch.from_numpy(x)
    path = folder / f"{name}-b{batch}.onnx"
    with torch.no_grad():
        y = network(given).numpy()
    names = {"input_names": ["x"], "output_names": ["y"]}
    torch.onnx.export(network, (given,), path, opset_version=17, dynamo=False, **names)
    np.savez(path.with_suffix(".npz"), in_x=x, out_y=y)
    return path


def main() -> None:
    """Export what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NETWORKS)}; all if there are none")
    parser.add_argument("--batch", type=int, default=1)
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - NETWORKS.keys())
    if unknown or arguments.batch < 1:
        parser.error(f"expected names of {', '.join(NETWORKS)}, and a batch of at least 1")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    try:
        for name in arguments.names or NETWORKS:
            print(export(name, arguments.batch, arguments.folder), flush=True)
    except ImportError as missing:
        parser.error(
            f"{missing.name} is not installed: pip install torch torchvision transformers onnx"
        )


if __name__ == "__main__":
    main()

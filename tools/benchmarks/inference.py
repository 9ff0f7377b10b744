"""Measures the encoder at inference against ONNX Runtime and PyTorch.

    python -m pip install -e '.[hf-test,onnx]'
    python tools/benchmarks/inference.py

All peers have the random weights of one Hugging Face model and read the same
rows of random tokens, half to completely filled. Each runs in a process of its
own with the same number of threads, and they take turns on an idle machine. The
run fails if logits differ by 1e-3. Prints one JSON line: milliseconds of a
call, and our time divided by the fastest rival's; above 1 ours is slower.
"""

import argparse
import json
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import measuring
import numpy as np

NAMES = ("input_ids", "input_mask", "segment_ids")
RIVALS = ("torch", "torch_compiled", "onnx", "onnx_fused")
Encode = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Maps ids and mask, int32 [B, L], to logits, float32 [B, L]."""


def main() -> None:
    """Measures the peers in turn, and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=measuring.SIZES, default="small")
    parser.add_argument("--num_hidden_layers", type=int, default=12)
    parser.add_argument("--vocab_size", type=int, default=30522)
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 128])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a turn")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("setting", nargs="?", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        _work(args.worker, json.loads(args.setting))
        return
    with tempfile.TemporaryDirectory() as directory:
        sizes = measuring.encoder_sizes(
            args.size, args.num_hidden_layers, args.vocab_size
        )
        setting = {"directory": directory, "threads": args.threads, **sizes}
        writer = measuring.Worker(__file__, "files", setting)
        writer.ask({})
        writer.close()
        workers = {
            name: measuring.Worker(__file__, name, setting)
            for name in ("saved_model", *RIVALS)
        }
        shapes = {
            f"{rows}x{length}": _measure(workers, (rows, length), args)
            for rows in args.batch_sizes
            for length in args.lengths
        }
        for worker in workers.values():
            worker.close()
    packages = ("tensorflow", "torch", "transformers", "onnxruntime")
    report = {"benchmark": "inference", **measuring.machine(*packages)}
    options = {k: v for k, v in vars(args).items() if v is not None}
    print(json.dumps(report | options | {"shapes": shapes}))


def _measure(
    workers: Mapping[str, measuring.Worker],
    shape: tuple[int, int],
    args: argparse.Namespace,
) -> dict[str, Any]:
    """Measures one shape, after comparing the logits."""
    requests, logits = {}, {}
    for name, worker in workers.items():
        first = worker.ask({"shape": shape, "count": 2})  # traces, compiles
        logits[name] = np.array(first["logits"])
        seconds = worker.ask({"shape": shape, "count": 1})["seconds"]
        count = max(1, round(args.seconds / seconds))
        requests[name] = {"shape": shape, "count": count}
    for name, values in logits.items():
        np.testing.assert_allclose(
            values, logits["torch"], atol=1e-3, err_msg=name
        )
    answers = measuring.take_turns(workers, args.turns, requests)
    times = {n: [a["seconds"] for a in found] for n, found in answers.items()}
    fastest = min(RIVALS, key=lambda name: statistics.median(times[name]))
    return {
        "milliseconds": {
            name: measuring.spread(1e3 * x for x in values)
            for name, values in times.items()
        },
        "ours_over_fastest_rival": measuring.median_ratio(
            times["saved_model"], times[fastest]
        ),
    }


def _work(name: str, setting: Mapping[str, Any]) -> None:
    """Encodes on request, in a process of its own."""
    if name == "files":
        _write_files(setting)
        measuring.answer_requests(lambda _: {})
        return
    encode = PEERS[name](setting)

    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        ids, mask = _rows(setting["vocab_size"], request["shape"])
        start = time.perf_counter()
        for _ in range(request["count"]):
            logits = encode(ids, mask)
        seconds = (time.perf_counter() - start) / request["count"]
        return {"seconds": seconds, "logits": logits[mask > 0].tolist()}

    measuring.answer_requests(answer)


def _rows(vocab_size: int, shape: tuple[int, int]) -> tuple:
    """Makes ids and mask of random rows, int32 [B, L] each."""
    rng = np.random.default_rng(0)
    size, length = shape
    sizes = rng.integers(length // 2, length + 1, size)
    sizes[0] = length
    mask = (np.arange(length) < sizes[:, None]).astype(np.int32)
    return rng.integers(5, vocab_size, shape).astype(np.int32) * mask, mask


def _write_files(setting: Mapping[str, Any]) -> None:
    """Writes the weights and the two ONNX graphs that the peers read."""
    import torch
    import transformers
    from onnxruntime.transformers import optimizer

    directory = setting["directory"]
    sizes = {k: v for k, v in setting.items() if k.endswith(("size", "heads"))}
    sizes["num_hidden_layers"] = setting["num_hidden_layers"]
    torch.manual_seed(0)
    model = transformers.ElectraForPreTraining._from_config(
        transformers.ElectraConfig(**sizes), attn_implementation="eager"
    )
    for weight in model.parameters():
        if weight.dim() == 1:  # biases, gamma and beta, which start at 0 and 1
            weight.data += 0.1 * torch.randn_like(weight)
    model.eval().save_pretrained(directory)

    class Module(torch.nn.Module):
        """Maps ids, mask and segments to logits."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return self.model(*inputs)[0]

    example = torch.ones(2, 16, dtype=torch.long)
    path = f"{directory}/onnx.onnx"
    torch.onnx.export(
        Module(),
        (example, example, example * 0),
        path,
        dynamo=False,
        input_names=list(NAMES),
        output_names=["logits"],
        dynamic_axes={name: {0: "b", 1: "l"} for name in (*NAMES, "logits")},
        opset_version=17,
    )
    optimizer.optimize_model(
        path,
        model_type="bert",
        num_heads=setting["num_attention_heads"],
        hidden_size=setting["hidden_size"],
        opt_level=1,
    ).save_model_to_file(f"{directory}/onnx_fused.onnx")


def _saved_model(setting: Mapping[str, Any]) -> Encode:
    import tensorflow as tf

    import electra_tf

    tf.config.threading.set_intra_op_parallelism_threads(setting["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(setting["threads"])
    path = pathlib.Path(setting["directory"], "saved_model")
    network = electra_tf.ElectraDiscriminator.from_checkpoint(
        setting["directory"]
    )
    network.export(str(path), verbose=False)
    function = tf.saved_model.load(str(path)).signatures["serving_default"]

    def encode(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        arrays = zip(NAMES, (ids, mask, 0 * ids), strict=True)
        inputs = {name: tf.constant(array) for name, array in arrays}
        return function(**inputs)["logits"].numpy()

    return encode


def _torch(setting: Mapping[str, Any], *, is_compiled: bool) -> Encode:
    import torch
    import transformers

    torch.set_num_threads(setting["threads"])
    model = transformers.ElectraForPreTraining.from_pretrained(
        setting["directory"], attn_implementation="sdpa"
    ).eval()
    function = torch.compile(model, dynamic=False) if is_compiled else model

    def encode(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        ids, mask = (torch.from_numpy(x).long() for x in (ids, mask))
        with torch.inference_mode():
            return function(ids, attention_mask=mask).logits.numpy()

    return encode


def _onnx(setting: Mapping[str, Any], name: str) -> Encode:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = setting["threads"]
    session = onnxruntime.InferenceSession(
        f"{setting['directory']}/{name}.onnx",
        options,
        providers=["CPUExecutionProvider"],
    )

    def encode(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        arrays = zip(NAMES, (ids, mask, 0 * ids), strict=True)
        feeds = {name: array.astype(np.int64) for name, array in arrays}
        known = {x.name for x in session.get_inputs()}
        return session.run(
            None, {k: v for k, v in feeds.items() if k in known}
        )[0]

    return encode


PEERS = {
    "saved_model": _saved_model,
    "torch": lambda setting: _torch(setting, is_compiled=False),
    "torch_compiled": lambda setting: _torch(setting, is_compiled=True),
    "onnx": lambda setting: _onnx(setting, "onnx"),
    "onnx_fused": lambda setting: _onnx(setting, "onnx_fused"),
}

if __name__ == "__main__":
    main()

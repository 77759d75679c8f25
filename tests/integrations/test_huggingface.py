"""config.json files: public models against published and independently counted figures, and files that are wrong."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from gemmsim.errors import GemmsimError
from gemmsim.integrations.huggingface import READERS, read_model
from gemmsim.paths import data_folder
from gemmsim.workload import Experts, Pass, products

CONFIGS = Path(__file__).parents[1] / "data" / "configs"
#: billions of parameters that the models' authors state, the text part alone where there is vision
PUBLISHED = {
    "llama2_7b": 6.74, "llama_3_8b": 8.03, "llama_3_70b": 70.6, "mistral_7b": 7.24, "mixtral_8x7b": 46.7,
    "qwen2_5_7b": 7.62, "qwen3_8b": 8.19, "qwen1_5_moe_a2_7b": 14.3, "qwen3_30b_a3b": 30.5, "gemma_2b": 2.51,
    "gemma_2_9b": 9.24, "gemma_3_1b": 1.00, "gemma_3_4b": 3.88, "gpt2": 0.124, "pythia_6_9b": 6.86,
}  # fmt: skip
#: by transformers and PyTorch (count.py there)
COUNTED = {row["config"]: row for row in csv.DictReader((CONFIGS / "counted.csv").read_text().splitlines())}
LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "vocab_size": 100,
    "num_attention_heads": 4,
}  # fmt: skip


def config(name: str) -> str:
    return str(data_folder("studies") / "llama2_7b.json" if name == "llama2_7b" else CONFIGS / f"{name}.json")


def written(folder: Path, **changes: Any) -> str:
    """A config with some keys changed, or left out where the value is `...`."""
    tree = {key: value for key, value in {**LLAMA, **changes}.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(tree))
    return str(folder / "config.json")


def test_every_config_is_counted_and_every_model_type_has_one() -> None:
    assert {path.stem for path in CONFIGS.glob("*.json")} | {"llama2_7b"} == set(PUBLISHED) == set(COUNTED)
    assert {json.loads(Path(config(name)).read_text())["model_type"] for name in PUBLISHED} == set(READERS)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_and_the_counted(name: str) -> None:
    model = read_model(config(name))
    assert model.parameters == pytest.approx(PUBLISHED[name] * 1e9, rel=0.01)
    assert model.parameters == int(COUNTED[name]["parameters"])


@pytest.mark.parametrize("name", PUBLISHED)
def test_flops_of_a_pass_are_the_counted(name: str) -> None:
    row = COUNTED[name]
    tokens = int(row["tokens"])
    model = read_model(config(name))
    found = products(model, Pass("prefill", tokens, tokens))
    flops, attention = sum(p.flops for p in found), sum(p.flops for p in found if not p.weight)
    if model.window is None or model.window >= tokens:
        assert flops == int(row["flops"])
    else:  # PyTorch's eager attention masks what a window leaves out, and counts it
        assert flops - attention == int(row["flops"]) - int(row["attention_flops"])
        assert attention < int(row["attention_flops"])


def test_llama_2_7b_is_about_28_tflop_at_2048_tokens() -> None:
    found = products(read_model(config("llama2_7b")), Pass("prefill", 2048, 2048))
    assert sum(p.flops * p.causal_share for p in found) == pytest.approx(28.16e12, rel=0.001)


def test_windows_are_where_transformers_has_them(tmp_path: Path) -> None:
    assert read_model(config("mistral_7b")).windowed_layers == 32
    assert read_model(config("qwen2_5_7b")).window is None
    assert read_model(config("gemma_2_9b")).windowed_layers == 21
    assert read_model(config("gemma_3_1b")).windowed_layers == 22  # of 26, every sixth is whole
    qwen = {"model_type": "qwen2", "num_key_value_heads": 4, "sliding_window": 16, "max_window_layers": 3}
    assert read_model(written(tmp_path, **qwen)).windowed_layers == 0
    assert read_model(written(tmp_path, **qwen, use_sliding_window=True)).windowed_layers == 1
    listed = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    assert read_model(written(tmp_path, **qwen, use_sliding_window=True, layer_types=listed)).windowed_layers == 2


def test_layers_without_experts(tmp_path: Path) -> None:
    mixed = {
        "model_type": "qwen3_moe", "head_dim": 16, "num_key_value_heads": 4, "num_experts": 8,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    }  # fmt: skip
    assert read_model(written(tmp_path, **mixed)).experts == Experts(4, 8, 2, 32)
    model = read_model(written(tmp_path, **mixed, decoder_sparse_step=2, mlp_only_layers=[3]))
    assert model.experts == Experts(1, 8, 2, 32)
    assert model.dense_layers == 3


def test_biases_heads_and_ties_are_read(tmp_path: Path) -> None:
    plain = read_model(written(tmp_path)).parameters
    assert read_model(written(tmp_path, attention_bias=True)).parameters - plain == 4 * (3 * 64 + 64)
    assert read_model(written(tmp_path, mlp_bias=True)).parameters - plain == 4 * (2 * 96 + 64)
    assert plain - read_model(written(tmp_path, tie_word_embeddings=True)).parameters == 100 * 64
    assert read_model(written(tmp_path, head_dim=32)).head_dim == 32
    assert read_model(written(tmp_path, num_key_value_heads=2)).kv_heads == 2
    assert read_model(written(tmp_path, num_key_value_heads=None)).kv_heads == 4


def test_what_was_filled_in_or_is_not_counted_is_said(tmp_path: Path) -> None:
    notes = read_model(config("gemma_3_4b")).notes
    assert "vocab_size = 262208, num_attention_heads = 8, num_key_value_heads = 4, head_dim = 256" in notes[1]
    assert "images" in notes[0]
    quantized = read_model(written(tmp_path, quantization_config={"quant_method": "fp8"}))
    assert "quantized (fp8)" in quantized.notes[0]


def test_a_model_is_called_by_its_file_or_folder(tmp_path: Path) -> None:
    assert read_model(config("gpt2")).name == "gpt2"
    assert read_model(written(tmp_path)).name == tmp_path.name


#: keys changed in a good config -> what the sentence must name
WRONG: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"model_type": ...}, ("no key model_type", "llama, mistral")),
    ({"model_type": 4}, ("model_type is 4", "llama, mistral")),
    ({"model_type": "deepseek_v3"}, ("'deepseek_v3'", "known are llama, mistral")),
    ({"model_type": "mitral"}, ("'mitral'", "did you mean mixtral")),
    ({"hidden_size": ...}, ("no key hidden_size", "whole number from 1 to 2147483647")),
    ({"intermediate_size": ...}, ("no key intermediate_size",)),
    ({"vocab_size": None}, ("no key vocab_size",)),
    ({"num_hidden_layers": 0}, ("num_hidden_layers is 0", "whole number from 1 to 100000")),
    ({"num_hidden_layers": 10**9}, ("num_hidden_layers is 1000000000", "from 1 to 100000")),
    ({"hidden_size": 64.0}, ("hidden_size is 64.0", "whole number")),
    ({"hidden_size": "64"}, ("hidden_size is '64'", "whole number")),
    ({"hidden_size": True}, ("hidden_size is True", "whole number")),
    ({"hidden_size": float("nan")}, ("hidden_size is nan", "whole number")),
    ({"hidden_size": [1] * 100}, ("hidden_size is [1, 1", "...", "whole number")),
    ({"hidden_size": 63}, ("num_attention_heads is 4", "divisor of the hidden size 63")),
    ({"num_key_value_heads": 3}, ("num_key_value_heads is 3", "divisor of num_attention_heads = 4")),
    ({"tie_word_embeddings": "yes"}, ("tie_word_embeddings is 'yes'", "true or false")),
    ({"attention_bias": None}, ("attention_bias is None", "true or false")),
    ({"model_type": "mistral"}, ("no key num_key_value_heads",)),
    ({"model_type": "mistral", "num_key_value_heads": 4, "sliding_window": 0}, ("sliding_window is 0",)),
    (
        {"model_type": "mistral", "num_key_value_heads": 4, "sliding_window": 8, "layer_types": ["full_attention"]},
        ("layer_types is ['full_attention']", "each of 4 layers"),
    ),
    (
        {"model_type": "mistral", "num_key_value_heads": 4, "sliding_window": 8, "layer_types": 4},
        ("layer_types is 4", "list of texts"),
    ),
    (
        {"model_type": "mixtral", "num_key_value_heads": 4, "num_local_experts": 2, "num_experts_per_tok": 3},
        ("num_experts_per_tok is 3", "at most the 2 experts"),
    ),
    ({"model_type": "gemma", "num_key_value_heads": 4}, ("no key head_dim",)),
    ({"model_type": "gemma3"}, ("text_config", "an object")),
    ({"model_type": "gemma3", "text_config": {}}, ("text_config: no key hidden_size",)),
    ({"model_type": "gpt2"}, ("no key n_embd",)),
]


@pytest.mark.parametrize(("changes", "names"), WRONG, ids=[str(w[0])[:60] for w in WRONG])
def test_a_wrong_config_names_file_key_found_and_expected(
    tmp_path: Path, changes: dict[str, Any], names: tuple[str, ...]
) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(GemmsimError) as caught:
        read_model(path)
    sentence = str(caught.value)
    assert sentence.startswith(path)
    assert [name for name in names if name not in sentence] == [], sentence


@pytest.mark.parametrize(("data", "names"), [
    (b"", ("line 1", "expected JSON")), (b"{", ("line 1", "expected JSON")), (b"[1]", ("JSON object", "a list")),
    (b"null", ("JSON object, found null",)), (b"5", ("JSON object, found 5",)),
    (b"\xff{}", ("UTF-8", "position 0")), (b"[" * 100_000, ("model's config: brackets in too many",)),
    (b'{"a": ' + b"1" * 5000 + b"}", ("model's config: Exceeds the limit (4300 digits) for integer",)),
])  # fmt: skip
def test_a_file_that_is_no_config(tmp_path: Path, data: bytes, names: tuple[str, ...]) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(data)
    with pytest.raises(GemmsimError) as caught:
        read_model(str(path))
    assert all(name in str(caught.value) for name in (str(path), *names)), str(caught.value)
    assert "sys." not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(GemmsimError, match="No such file"):
        read_model(str(tmp_path / "none.json"))
    with pytest.raises(GemmsimError, match="null byte"):
        read_model("a\0.json")

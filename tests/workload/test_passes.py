"""The GEMMs of a pass: shapes by hand, and what must hold of any model, split and number of tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmsim.errors import GemmsimError
from gemmsim.workload import Experts, Pass, Product, Transformer, products

TINY = Transformer("tiny", hidden=64, layers=3, heads=8, kv_heads=2, head_dim=16, width=96, vocab=101)
MIXED = replace(TINY, experts=Experts(layers=2, count=5, chosen=2, width=24, shared=48))


def prefill(tokens: int, **more: int) -> Pass:
    return Pass("prefill", tokens, tokens, **more)


def sizes(found: tuple[Product, ...]) -> dict[str, tuple[int, int, int, int, int, str]]:
    return {p.name: (p.m, p.n, p.k, p.form.batch, p.count, p.form.layout) for p in found}


def test_a_layer_by_hand() -> None:
    assert sizes(products(TINY, prefill(10, sequences=3))) == {
        "qkv": (30, 128 + 2 * 32, 64, 1, 3, "NT"), "qk": (10 * 4, 10, 16, 3 * 2, 3, "NT"),
        "pv": (10 * 4, 16, 10, 3 * 2, 3, "NN"), "o": (30, 64, 128, 1, 3, "NT"), "gate_up": (30, 192, 64, 1, 3, "NT"),
        "down": (30, 64, 96, 1, 3, "NT"), "lm_head": (30, 101, 64, 1, 1, "NT"),
    }  # fmt: skip


def test_decode_has_a_row_a_sequence_and_looks_at_the_whole_context() -> None:
    found = sizes(products(TINY, Pass("decode", 1, context=77, sequences=5)))
    assert found["qkv"][0] == found["lm_head"][0] == 5
    assert found["qk"] == (4, 77, 16, 10, 3, "NT")
    assert found["pv"] == (4, 16, 77, 10, 3, "NN")


def test_no_gate_and_weights_of_the_other_way_round() -> None:
    found = sizes(products(replace(TINY, gated=False, weight_rows="K"), prefill(10)))
    assert found["up"] == (10, 96, 64, 1, 3, "NN")
    assert found["o"][-1] == "NN"
    assert found["lm_head"][-1] == "NT"  # the embedding, vocab x hidden
    assert "gate_up" not in found


def test_a_window_limits_the_keys_of_its_layers() -> None:
    model = replace(TINY, window=6, windowed_layers=2)
    found = {p.name: p for p in products(model, prefill(10))}
    assert (found["qk"].n, found["qk"].count) == (10, 1)
    assert (found["qk_window"].n, found["pv_window"].k, found["qk_window"].count) == (6, 6, 2)
    assert found["qk"].causal_share == pytest.approx(sum(range(1, 11)) / 100)
    assert found["qk_window"].causal_share == pytest.approx(sum(min(i, 6) for i in range(1, 11)) / 60)
    assert "qk" not in sizes(products(replace(model, windowed_layers=3), prefill(10)))
    short = {p.name: p for p in products(model, prefill(4))}
    assert short["qk_window"].n == 4


def test_weights_have_a_type_of_their_own_but_in_the_lm_head_and_the_router() -> None:
    run = replace(prefill(10), weights="fp8")
    kinds = {p.name: p.gemm.dtype_b for p in products(MIXED, run)}
    assert {name for name, kind in kinds.items() if kind == "bf16"} == {
        "qk", "pv", "router", "shared_gate", "lm_head",
    }  # fmt: skip
    assert {p.gemm.dtype for p in products(MIXED, run)} == {"bf16"}
    halved = {p.name: p.weight_bytes for p in products(MIXED, run)}
    whole = {p.name: p.weight_bytes for p in products(MIXED, prefill(10))}
    assert halved["down"] * 2 == whole["down"]
    assert halved["qk"] == whole["qk"] == 0


def test_the_last_logits_alone() -> None:
    found = sizes(products(TINY, replace(prefill(10, sequences=3), last_only=True)))
    assert found["lm_head"][0] == 3
    assert found["qkv"][0] == 30


def test_tokens_are_spread_evenly_over_experts() -> None:
    found = sizes(products(MIXED, prefill(9)))  # 18 places, 5 experts
    assert found["router"] == (9, 5, 64, 1, 2, "NT")
    assert found["experts_gate_up"] == (4, 48, 64, 3, 2, "NT")
    assert found["experts_rest_gate_up"] == (3, 48, 64, 2, 2, "NT")
    assert found["shared_down"] == (9, 64, 48, 1, 2, "NT")
    assert found["gate_up"][4] == 1  # the one layer without experts
    few = sizes(products(MIXED, prefill(1)))
    assert few["experts_down"] == (1, 64, 24, 2, 2, "NT")  # two experts are used, three are not
    assert "experts_rest_down" not in few


@given(tokens=st.integers(1, 5000), sequences=st.integers(1, 9), chosen=st.integers(1, 7), count=st.integers(7, 64))
def test_every_token_meets_its_experts(tokens: int, sequences: int, chosen: int, count: int) -> None:
    model = replace(TINY, experts=Experts(3, count, chosen, 24))
    down = [
        p for p in products(model, prefill(tokens, sequences=sequences)) if "experts" in p.name and "down" in p.name
    ]
    assert sum(p.m * p.form.batch for p in down) == tokens * sequences * chosen
    assert sum(p.form.batch for p in down) == min(count, tokens * sequences * chosen)


@given(tokens=st.integers(1, 3000), sequences=st.integers(1, 9), experts=st.booleans())
def test_flops_are_two_a_weight_and_token_and_four_a_key_and_query(tokens: int, sequences: int, experts: bool) -> None:
    """A second way to count: of the parameters all but embedding and norms multiply, of the experts those chosen."""
    model = MIXED if experts else TINY
    used = replace(model, experts=replace(MIXED.experts, count=2)) if experts and MIXED.experts else model
    norms = 3 * 2 * 64 + 64
    multiplied = used.parameters - 101 * 64 - norms
    router = 2 * 64 * (5 - 2) if experts else 0
    found = products(model, prefill(tokens, sequences=sequences))
    assert sum(p.flops for p in found if p.weight) == 2 * tokens * sequences * (multiplied + router)
    assert sum(p.flops for p in found if not p.weight) == 4 * sequences * tokens**2 * 8 * 16 * 3


@given(tp=st.sampled_from([1, 2, 4, 8]), tokens=st.integers(1, 500))
def test_shares_of_tensor_parallelism_add_up(tp: int, tokens: int) -> None:
    """tp times the share of a product is the whole, but for the router, what is held twice, and the vocabulary."""
    whole = {p.name: p for p in products(MIXED, prefill(tokens))}
    for p in products(MIXED, prefill(tokens, tp=tp)):
        if p.name in ("router", "shared_gate"):
            assert p.flops == whole[p.name].flops
        elif p.name == "qkv":
            assert p.n == (8 // tp + 2 * max(2 // tp, 1)) * 16
            assert bool(p.note) == (tp > 2)
        elif p.name == "lm_head":
            assert whole["lm_head"].n <= p.n * tp < whole["lm_head"].n + tp
        else:
            assert p.flops * tp == whole[p.name].flops


@given(tokens=st.integers(1, 400), window=st.integers(1, 500))
def test_the_causal_share_is_what_a_mask_leaves(tokens: int, window: int) -> None:
    model = replace(TINY, window=window, windowed_layers=3)
    found = next(p for p in products(model, prefill(tokens)) if p.name == "qk_window")
    left = sum(min(i, window) for i in range(1, tokens + 1))
    assert found.causal_share * tokens * found.n == pytest.approx(left)
    assert 0 < found.causal_share <= 1


@pytest.mark.parametrize(("tp", "sentence"), [
    (3, "tp = 3: expected a divisor of the model's 8 attention heads"),
    (16, "tp = 16: expected a divisor of the model's 8 attention heads"),
])  # fmt: skip
def test_a_split_that_no_heads_allow(tp: int, sentence: str) -> None:
    with pytest.raises(GemmsimError, match=f"^{sentence}$"):
        products(TINY, prefill(8, tp=tp))


def test_a_split_that_no_key_heads_or_columns_allow() -> None:
    with pytest.raises(GemmsimError, match="tp = 4: expected a divisor or a multiple of the model's 6 key/value heads"):
        products(replace(TINY, heads=12, kv_heads=6), prefill(8, tp=4))
    with pytest.raises(GemmsimError, match="tp = 8: expected a divisor of the model's 100 MLP columns"):
        products(replace(TINY, width=100), prefill(8, tp=8))
    with pytest.raises(GemmsimError, match="tp = 8: expected a divisor of the model's 20 MLP columns of an expert"):
        products(replace(MIXED, experts=Experts(2, 5, 2, 20)), prefill(8, tp=8))


def test_what_is_no_size_or_type_names_the_gemm() -> None:
    with pytest.raises(GemmsimError, match=r"^GEMM qkv: M = 4294967294: expected"):
        products(TINY, prefill(2**31 - 1, sequences=2))
    with pytest.raises(GemmsimError, match=r"^GEMM qkv: dtype_b = fp32: expected bf16"):
        products(TINY, replace(prefill(4), weights="fp32"))

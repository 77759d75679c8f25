"""Parameters and FLOPs of a forward pass of each config here and in studies/, counted by transformers and PyTorch.

On the meta device: nothing is computed. `python count.py > counted.csv`, with transformers and torch installed;
counted.csv is of transformers 5.24.0 and torch 2.14.1. FLOPs are PyTorch's 2 m n k of every product, all logits and
attention whole, windows too. attention_flops is empty where experts are batched products as attention's are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode


def counted(path: Path) -> str:
    config = transformers.AutoConfig.from_pretrained(str(path)).get_text_config()
    settings: dict[str, Any] = {"attn_implementation": "eager", "dtype": torch.bfloat16}
    experts = "moe" in config.model_type or config.model_type == "mixtral"
    if experts:
        settings["experts_implementation"] = "batched_mm"
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, **settings)
        tokens = min(2048, config.max_position_embeddings)
        mask: Any = torch.zeros((1, 1, tokens, tokens), dtype=torch.bfloat16)
        if config.model_type in ("qwen2", "qwen3", "gemma2", "gemma3_text"):
            mask = {"full_attention": mask, "sliding_attention": mask}
        ids = torch.zeros((1, tokens), dtype=torch.long)
        with FlopCounterMode(display=False) as flops:
            model(ids, attention_mask=mask, position_ids=ids, use_cache=False)
    parameters = sum(p.numel() for p in model.parameters())
    batched = sum(n for op, n in flops.get_flop_counts()["Global"].items() if "bmm" in str(op))
    return f"{path.stem},{parameters},{tokens},{flops.get_total_flops()},{'' if experts else batched}"


if __name__ == "__main__":
    print("config,parameters,tokens,flops,attention_flops")
    here = Path(__file__).parent
    for found in sorted([*here.glob("*.json"), here.parents[2] / "studies" / "llama2_7b.json"], key=lambda p: p.stem):
        print(counted(found), flush=True)

"""What the time of each pick is made of: parts by term, which add up to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gemmsim.model.parts import parts
from gemmsim.model.predict import predict
from gemmsim.study.picks.plan import PicksStudy

if TYPE_CHECKING:
    from gemmsim.study.picks.outcome import Candidate

#: what is left of a time beside its terms' parts
REST = "other"


def pick_parts(study: PicksStudy, picks: Sequence[Candidate]) -> list[dict[str, float]]:
    """Seconds by term of each candidate, REST among them; together its time. Those of one kernel and GPU at once."""
    found: list[dict[str, float]] = [{} for _ in picks]
    keys = [(c.gpu, c.dtype, c.family) for c in picks]
    for key in dict.fromkeys(keys):
        here = [i for i, k in enumerate(keys) if k == key]
        for i, own in zip(here, _parts(study, [picks[i] for i in here]), strict=True):
            found[i] = own | {REST: picks[i].time_s - sum(own.values())}
    return found


def _parts(study: PicksStudy, same: Sequence[Candidate]) -> list[dict[str, float]]:
    """Parts of candidates of one GPU, dtype and family."""
    gpu = next(gpu for gpu in study.gpus if gpu.name == same[0].gpu)
    m, n, k = np.asarray([(c.m, c.n, c.k) for c in same]).T
    config: Mapping[str, object] = {name: np.asarray([c.parameters[name] for c in same]) for name in same[0].parameters}
    p = predict(
        m, n, k, gpu=gpu, dtype=same[0].dtype, family=same[0].family, config=config, l2=study.l2, terms=True
    )  # fmt: skip
    return parts(p)

"""How good a near problem's pick is: `nearest.py`. Each shape of a file is held out, and picked from the other shapes.

Regret: how much longer than the best recorded configuration of the shape the pick took there; picks that were not
recorded there are left out. Beside it, what the model picks of the configurations recorded there, no rows needed. The
calibrations had seen rows of these shapes.
"""

from __future__ import annotations

import numpy as np

from gemmsim import predict
from gemmsim.picks import evidence, measured, pick, wanted
from gemmsim.picks.evidence import Evidence, Shape
from gemmsim.picks.pick import Pick
from gemmsim.store import Row

FILES = ("simt_fp32", "simt_pick", "triton_bf16", "triton_bf16_more", "triton_pick")


class Without:
    """Rows without those of one shape."""

    def __init__(self, rows: Evidence, shape: Shape) -> None:
        self._rows, self._shape, self.place = rows, shape, rows.place

    def kinds(self) -> list[tuple[str, str, str]]:
        """See Evidence."""
        return self._rows.kinds()

    def shapes(self, gpu: str, dtype: str) -> list[Shape]:
        """See Evidence."""
        return [shape for shape in self._rows.shapes(gpu, dtype) if shape != self._shape]

    def at(self, gpu: str, dtype: str, shape: Shape) -> list[Row]:
        """See Evidence."""
        return [] if shape == self._shape else self._rows.at(gpu, dtype, shape)


def first(best: Pick) -> str:
    """The configuration that the model likes best of those recorded on a problem."""
    order = best.standing.order
    config = {name: [timed.config[name] for timed in order] for name in order[0].config}
    asked = best.wanted
    found = predict(*best.source, gpu=asked.gpu, dtype=asked.form, family=best.family, config=config, l2=best.l2)
    return order[int(np.nanargmin(found.time_s))].key


def main() -> None:
    """Print a line a file."""
    print("| rows | shapes | pick recorded there | mean regret | median | most | the model's: mean regret | most |")
    print("|---|---|---|---|---|---|---|---|")
    for name in FILES:
        rows = evidence(f"studies/h200/{name}.csv.gz")
        asked = wanted(rows)
        own = [measured(rows, asked, shape) for shape in rows.shapes(asked.gpu.name, asked.form.dtype)]
        regrets, models = [], []
        for best in filter(None, own):
            times = {timed.key: timed.time_s / best.timed.time_s - 1 for timed in best.standing.order}
            regrets.append(times.get(pick(Without(rows, best.source), asked, best.source).key, np.nan))
            models.append(times[first(best)])
        known = 100 * np.asarray([r for r in regrets if np.isfinite(r)])
        mean, median, most = np.mean(known), np.median(known), np.max(known)
        print(f"| {name} | {len(regrets)} | {len(known)} | {mean:.2f}% | {median:.2f}% | {most:.1f}% "
              f"| {100 * np.mean(models):.2f}% | {100 * np.max(models):.1f}% |")  # fmt: skip


if __name__ == "__main__":
    main()

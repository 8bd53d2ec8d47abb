"""The same runs on the host and on a device: prints the tables of docs/device.md.

python experiments/device/agreement.py

First 40 runs of `lpo` on each. Then the rows of figure 1; a cell is a task and a row, and runs are
compared within cells.
"""

from pathlib import Path

import numpy as np

from lpo.report.runs import Runs
from lpo.report.stats import estimate, improvement

HERE = Path(__file__).parent / "results"
FIGURE_1 = Path(__file__).parents[1] / "figure1" / "results"
SWITCH = FIGURE_1.parents[1] / "components" / "results" / "locomotion.parquet"  # `lpo-s` at `half`
DEVICES = {"gpu": "GPU, MuJoCo Warp", "planar": "CPU, `planar`"}
DRAWS = 5000


def read(name: str) -> dict[str, np.ndarray]:
    """Return of the last evaluation, and steps until the first reward, of every run."""
    runs = Runs([HERE / f"agreement-{name}.parquet"]).runs
    last = [run.last for run in runs]
    first = [run.first_reward for run in runs]
    return {"last evaluation": np.array(last), "first reward, steps": np.array(first, float)}


def improves(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the probability that a run of ``second`` has the larger number."""
    return float(((second[:, None] > first).mean() + (second[:, None] >= first).mean()) / 2)


def table() -> str:
    host, rng = read("host"), np.random.default_rng(0)
    lines = ["| device |  | host, median | device, median | P(device larger) | 95 % interval |"]
    lines.append("|---|---|---|---|---|---|")
    for device, words in DEVICES.items():
        for name, y in read(device).items():
            x = host[name]
            drawn = [improves(rng.choice(x, x.size), rng.choice(y, y.size)) for _ in range(DRAWS)]
            low, high = np.percentile(drawn, [2.5, 97.5])
            lines.append(
                f"| {words} | {name} | {np.median(x):,.0f} | {np.median(y):,.0f} | "
                f"{improves(x, y):.2f} | {low:.2f} – {high:.2f} |"
            )
    return "\n".join(lines) + "\n"


def figure1() -> str:
    """Returns how the final returns of all rows compare, for each body and over all."""
    host = Runs([FIGURE_1 / "half.parquet", FIGURE_1 / "hard.parquet", SWITCH])
    gpu = Runs([FIGURE_1 / "seeds64.parquet"])
    cells = [(task, row) for task in gpu.tasks for row in gpu.labels if host.cell(task, row)]
    lines = ["| tasks | cells | runs on the host | on the GPU | P(GPU larger) | 95 % interval |"]
    lines.append("|---|---|---|---|---|---|")
    for name in ("SparseHopper", "SparseWalker2d", "SparseHalfCheetah", ""):
        x, y = (
            [np.array([run.final for run in runs.cell(*cell)]) for cell in cells if name in cell[0]]
            for runs in (gpu, host)
        )
        e = estimate(improvement, x, y)
        counts = f"{sum(map(len, y))} | {sum(map(len, x)):,}"
        found = f"{e.value:.2f} | {e.low:.2f} – {e.high:.2f}"
        lines.append(f"| {name or 'all'} | {len(x)} | {counts} | {found} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table())
    print(figure1(), end="")

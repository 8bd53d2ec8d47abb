"""The same 40 runs of `lpo` on the host and on a device: the table of docs/results/device.md.

python experiments/device/agreement.py
"""

from pathlib import Path

import numpy as np

from lpo.report.runs import Runs

HERE = Path(__file__).parent / "results"
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


if __name__ == "__main__":
    print(table(), end="")

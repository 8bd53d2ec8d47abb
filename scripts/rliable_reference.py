"""Write tests/data/rliable_reference.json: what rliable computes, for tests/test_report_stats.py.

rliable draws from NumPy's global state, so seeding that makes its intervals reproducible.

    pip install rliable 'pandas<3'
    python scripts/rliable_reference.py
"""

import json
from pathlib import Path

import numpy as np
from rliable import library, metrics  # pyright: ignore[reportMissingImports]

OUT = Path(__file__).parents[1] / "tests" / "data" / "rliable_reference.json"
REPS, SEED = 500, 0


def intervals(scores, function):
    np.random.seed(SEED)
    point, interval = library.get_interval_estimates({"x": scores}, function, reps=REPS)
    return {"value": np.asarray(point["x"]).tolist(), "interval": interval["x"].tolist()}


def main() -> None:
    rng = np.random.default_rng(1)
    x = np.round(rng.beta(2.0, 3.0, (5, 3)), 3)
    y = np.round(rng.beta(1.5, 4.0, (5, 3)), 3)
    y[:2, 0] = x[1:3, 0]  # ties
    taus = np.linspace(0, 1, 11)

    def profile(scores):
        return library.score_distributions(scores, taus)

    result = {
        "x": x.tolist(),
        "y": y.tolist(),
        "reps": REPS,
        "seed": SEED,
        "taus": taus.tolist(),
        "iqm": intervals(x, lambda s: np.array([metrics.aggregate_iqm(s)])),
        "iqm_one_task": intervals(x[:, :1], lambda s: np.array([metrics.aggregate_iqm(s)])),
        "improvement": intervals(
            [x, y], lambda a, b: np.array([metrics.probability_of_improvement(a, b)])
        ),
        "profile": intervals(x, profile),
        "uneven": float(metrics.probability_of_improvement(x, y[:3])),
    }
    OUT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Reports of run directories written by hand: every number on them is known."""

import csv
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from lpo import cli, config
from lpo.config import configure, flat
from lpo.errors import LPOError
from lpo.report.clips import beside_report, make_clips
from lpo.report.figures import colors, slim, thin
from lpo.report.runs import Runs
from lpo.report.tables import cell_rows, option_rows, write_tables
from lpo.runs.visits import Visits

TASK = {
    "id": "lpo/SparseHopper-v0", "preset": "half", "quantity": "x_velocity", "threshold": 0.7402,
    "max_return": 1000.0,
    "projection": [
        {"name": "x_velocity", "index": 5, "low": -2.0, "high": 4.0},
        {"name": "height", "index": 0, "low": 0.6, "high": 1.6},
    ],
}  # fmt: skip


def write_run(path, returns, rates=(0.0, 0.1), task=TASK, **options):
    """A run with an evaluation every 1000 steps; ``rates`` are the first reward rates."""
    c = configure(**{"steps": 1000 * len(returns), "threshold": "half", **options})
    path.mkdir(parents=True)
    (path / "config.json").write_text(config.to_json(c))
    (path / "task.json").write_text(json.dumps(task))
    rows = []
    for i, value in enumerate(returns):
        rate = rates[min(i, len(rates) - 1)]
        row = {"env_steps": 1000 * (i + 1), "eval/return": value, "switch/count": i + 1}
        row |= {"rollout/reward_rate": rate, "rollout/return": value}
        rows.append(row | ({} if c.algo == "ppo" else {"bonus/mean": 1.0 / (i + 1)}))
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    visits = Visits(task, c.steps)
    visits.add(np.zeros((3, 1, 11)), np.ones((3, 1), bool), 0)
    (path / "visits.json").write_text(visits.to_json() or "")
    timing = {"env_steps": 1000, "time/rollout_s": 2.0, "time/learn_s": 3.0, "time/eval_s": 5.0}
    (path / "timing.jsonl").write_text(json.dumps(timing) + "\n")
    return path


@pytest.fixture
def sweep(tmp_path):
    """Two labels, three seeds; `lpo` ends at 600, 700, 800, `ppo` at 0, 0, 100."""
    root = tmp_path / "swept"
    names = []
    for seed in range(3):
        ends = {"lpo": 600 + 100 * seed, "ppo": 100 * (seed == 2)}
        for algo, end in ends.items():
            rates = (0.0,) if end == 0 else (0.0, 0.1)
            name = f"{algo}-s{seed}"
            write_run(root / name, [0.0] + [float(end)] * 6, rates, algo=algo, seed=seed)
            names.append({"name": name, "label": algo})
    (root / "sweep.json").write_text(json.dumps({"name": "g", "runs": names}))
    return root


def lpo(*arguments) -> int:
    try:
        cli.main([str(a) for a in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def read(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def test_a_report_is_one_page_with_its_figures_and_numbers(sweep, capsys):
    assert lpo("report", sweep, "--title", "A <test>") == 0
    out = sweep / "report"
    assert str(out / "index.html") in capsys.readouterr().out
    html = (out / "index.html").read_text()
    assert "<h1>A &lt;test&gt;</h1>" in html
    assert "x_velocity &gt; 0.7402" in html  # the threshold
    assert "42,000 environment steps in 0.02 core hours" in html  # 6 runs of 10 s
    assert "<code>lpo report" in html
    sources = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert len(sources) > 5 and all(source.startswith("data:") for source in sources)
    assert "<script" not in html and "url(" not in html and "@import" not in html
    drawn = {p.stem for p in (out / "figures").iterdir()}
    parts = "return profile improvement first-reward switch-count bonus-mean visits-lpo visits-ppo"
    for name in parts.split():
        assert any(stem.startswith(name) for stem in drawn), name
    for stem in drawn:
        assert (out / "figures" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert (out / "figures" / f"{stem}.svg").read_bytes().startswith(b"<?xml")
    assert "No clip of 2 cells" in html


@pytest.mark.slow
def test_the_numbers_of_a_report(sweep):
    assert lpo("report", sweep, "--no-clips") == 0
    data = sweep / "report" / "data"
    by_label = {row["label"]: row for row in read(data / "cells.csv")}
    assert list(by_label) == ["lpo", "ppo"]
    lpo_row, ppo_row = by_label.values()
    assert float(lpo_row["final_iqm"]) == 700.0  # of three nothing is cut off
    assert float(lpo_row["low"]) >= 600.0 and float(lpo_row["high"]) <= 800.0
    assert float(lpo_row["share_above_half"]) == 1.0 and float(ppo_row["share_above_half"]) == 0.0
    assert float(lpo_row["median_first_reward"]) == 2000.0
    assert ppo_row["median_first_reward"] == "" and ppo_row["runs_with_reward"] == "1"
    assert float(lpo_row["env_steps_per_s"]) == 7000 / 5
    (improved,) = read(data / "improvement.csv")
    assert (improved["x"], improved["y"], float(improved["probability"])) == ("lpo", "ppo", 1.0)
    scores = {row["label"]: float(row["iqm"]) for row in read(data / "scores.csv")}
    assert scores == pytest.approx({"lpo": 0.7, "ppo": 0.1 / 3})
    curve = [row for row in read(data / "curves.csv") if row["label"] == "lpo"]
    assert float(curve[0]["iqm"]) == 0.0 and float(curve[-1]["iqm"]) == 700.0
    profile = {float(row["tau"]): float(row["share"]) for row in read(data / "profiles.csv")[:101]}
    assert profile[0.0] == 1.0 and profile[0.65] == pytest.approx(2 / 3) and profile[0.9] == 0.0
    assert len(read(data / "runs.csv")) == 6


def test_a_report_has_tables_to_paste_and_says_what_drove_the_policy(sweep):
    for seed, ext in enumerate((1.0, 2.0, 4.0)):
        path = sweep / f"lpo-s{seed}" / "metrics.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for i, row in enumerate(rows):
            early = i < len(rows) // 2  # counts for nothing
            row |= {"advantage/ext_rms": 99.0 if early else ext, "advantage/int_rms": 0.5}
            row |= {"policy/log_std": -1.0 - seed}
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert lpo("report", sweep, "--no-clips") == 0
    data = sweep / "report" / "data"
    task, first, *_ = (data / "cells.md").read_text().splitlines()[2].strip("| ").split(" | ")
    assert (task, first) == ("SparseHopper (half)", "`lpo`")
    assert "| 3 of 3 | 2,000 |" in (data / "cells.md").read_text()
    lpo_line, ppo_line = (data / "streams.md").read_text().splitlines()[2:]
    assert lpo_line.endswith("| 2 (1, 4) | 0.25 (0.12, 0.5) | -2 (-3, -1) | – |")
    assert ppo_line.endswith("| – | – | – | – |")
    assert "2 (1, 4)" in (sweep / "report" / "index.html").read_text()


def test_an_unfinished_run_is_counted_as_such(sweep):
    c = json.loads((sweep / "lpo-s0" / "config.json").read_text()) | {"steps": 9000}
    for seed in range(3):
        (sweep / f"lpo-s{seed}" / "config.json").write_text(json.dumps(c | {"seed": seed}))
    row = cell_rows(Runs([sweep]))[0]
    assert (row["label"], row["unfinished"]) == ("lpo", 3)


def test_labels_come_from_the_sweep_and_options_are_told_apart(sweep, tmp_path):
    write_run(tmp_path / "loose", [0.0, 5.0], algo="rnd", epochs=3)
    runs = Runs([sweep, tmp_path / "loose"])
    assert runs.labels == ["lpo", "ppo", "rnd"]
    differing, shared = option_rows(runs)
    assert {"option": "epochs", "lpo": "10", "ppo": "10", "rnd": "3"} in differing
    assert {"option": "rollout", "value": "2048"} in shared
    names = {row["option"] for row in differing + shared}
    known = flat(configure("lpo")).keys() | flat(configure("rnd")).keys()
    idle = {"threads", "env_workers", "step_timeout", "keep_checkpoints", "checkpoint_every",
            "loggers"}  # fmt: skip
    assert names == known - idle - {"seed", "env", "threshold"}  # no number depends on them
    assert {"option": "beta", "lpo": "1.0", "ppo": "–", "rnd": "1.0"} in differing


def test_unlike_runs_under_one_label_are_refused(tmp_path):
    write_run(tmp_path / "a", [1.0], epochs=3)
    write_run(tmp_path / "b", [1.0], epochs=4, seed=1)
    with pytest.raises(LPOError, match=r"differ in epochs \(3 and 4\)"):
        Runs([tmp_path])


def test_bad_input_of_a_report(sweep, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert lpo("report", tmp_path / "empty") == 2
    assert "holds none" in capsys.readouterr().err
    assert lpo("report", sweep, "--reference", "sac", "--no-clips") == 2
    assert "choose one of lpo, ppo" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert lpo("report", sweep, "--no-clips", "--out", tmp_path / "file" / "x") == 2
    assert "pass another --out" in capsys.readouterr().err


def test_a_final_return_is_read_at_the_end_however_often_a_run_was_evaluated(tmp_path):
    """A run that climbs along a line: five of 20 evaluations are late, and only two of 5."""
    for name, evaluations in (("often", 20), ("seldom", 5)):
        path = write_run(tmp_path / name, [1.0] * evaluations, steps=20_000)
        rows = [
            {"env_steps": s, "eval/return": s / 20_000}
            for s in range(20_000 // evaluations, 20_001, 20_000 // evaluations)
        ]
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    often, seldom = (Runs([tmp_path / name]).runs[0] for name in ("often", "seldom"))
    assert often.final == pytest.approx(np.mean([0.8, 0.85, 0.9, 0.95, 1.0]))
    assert seldom.final == pytest.approx(np.mean([0.8, 1.0]))


def test_a_task_may_declare_the_return_that_scores_0(tmp_path):
    task = {"id": "Acrobot-v1", "min_return": -500.0, "max_return": -100.0}
    for name, algo, last in (("a", "ppo", -320.0), ("b", "lpo", -280.0)):
        write_run(tmp_path / name, [last], task=task, algo=algo, threshold=None)
    runs = Runs([tmp_path])
    assert [runs.scores(label)[0].tolist() for label in ("ppo", "lpo")] == [[0.45], [0.55]]
    assert [row["share_above_half"] for row in cell_rows(runs)] == [0.0, 1.0]


def test_a_task_without_a_largest_return_is_scaled_by_the_best_seen(tmp_path):
    task = {"id": "MountainCarContinuous-v0"}
    write_run(
        tmp_path / "a", [0, 0, 0, 0, 0, 0, -10.0, 50.0], task=task, algo="ppo", threshold=None
    )
    write_run(tmp_path / "b", [-10.0, 100.0], task=task, algo="lpo", threshold=None)
    runs = Runs([tmp_path])
    assert runs.scale(runs.tasks[0]) == 100.0
    assert runs.scores("ppo")[0].tolist() == [40 / 3 / 100]  # of the last quarter: 0, −10 and 50
    assert cell_rows(runs)[0]["share_above_half"] is None
    assert lpo("report", tmp_path, "--no-clips", "--out", tmp_path / "r") == 0
    assert "over the best return seen" in (tmp_path / "r" / "index.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("count", [8, 18])
def test_many_labels_fit(tmp_path, count):
    names = [f"variant-with-a-long-name-{i}" for i in range(count)]
    for i, name in enumerate(names):
        write_run(tmp_path / name, [0.0, float(i)], beta=1.0 + i)
    plan = [{"name": name, "label": name} for name in names]
    (tmp_path / "sweep.json").write_text(json.dumps({"name": "g", "runs": plan}))
    # Matplotlib warns where a legend leaves no room, and a warning is an error here
    assert lpo("report", tmp_path, "--no-clips", "--out", tmp_path / "r") == 0
    assert len(read(tmp_path / "r" / "data" / "improvement.csv")) == count - 1


def test_every_label_has_a_colour_of_its_own():
    for count in (1, 8, 30):
        labels = ["lpo", "ppo", *(f"variant-{i}" for i in range(count))]
        chosen = colors(labels)
        assert len({chosen[label] for label in labels}) == len(labels)
        assert chosen["lpo"] == "#c1272d"  # as in every other figure


def test_clips_say_why_they_are_missing(sweep):
    clips = make_clips(Runs([sweep]), beside_report(sweep / "report"))
    assert clips.files == {} and "No clip of 2 cells" in clips.note


@pytest.mark.slow
def test_packed_runs_make_the_same_report(sweep, tmp_path):
    """Every table and the curves are equal, from one file without checkpoints."""
    small = tmp_path / "small.parquet"
    assert lpo("report", sweep, "--no-clips") == 0
    assert lpo("pack", sweep, "--out", small) == 0
    assert lpo("report", small, "--no-clips", "--out", tmp_path / "again") == 0
    assert "<h1>small</h1>" in (tmp_path / "again" / "index.html").read_text()
    tables = sorted(p.name for p in (sweep / "report" / "data").iterdir())
    assert {"cells.csv", "runs.csv", "curves.csv", "cells.md", "streams.md"} <= set(tables)
    for table in tables:
        same = (sweep / "report" / "data" / table).read_bytes()
        assert same == (tmp_path / "again" / "data" / table).read_bytes(), table
    drawn = sorted(p.name for p in (sweep / "report" / "figures").glob("*.svg"))
    assert "visits-lpo-SparseHopper-v0-half-x-velocity-0.7402.svg" in drawn
    for name in drawn:
        same = (sweep / "report" / "figures" / name).read_bytes()
        assert same == (tmp_path / "again" / "figures" / name).read_bytes(), name


def test_files_and_directories_make_one_report(sweep, tmp_path):
    assert lpo("pack", sweep / "lpo-s0", sweep / "lpo-s1", "--out", tmp_path / "a.parquet") == 0
    loose = write_run(tmp_path / "loose", [0.0, 5.0], algo="rnd", epochs=3)
    runs = Runs([tmp_path / "a.parquet", sweep / "lpo-s2", loose])
    assert [run.name for run in runs.runs] == ["lpo-s0", "lpo-s1", "lpo-s2", "loose"]
    assert [run.label for run in runs.runs] == ["lpo", "lpo", "lpo", "rnd"]
    assert [run.options["epochs"] for run in runs.runs] == [10, 10, 10, 3]
    assert [run.seed for run in runs.runs] == [0, 1, 2, 0]
    given = [tmp_path / "a.parquet", sweep, loose]
    assert lpo("plot", *given, "--out", tmp_path / "curve.png") == 0
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_plot_names_the_metrics_that_a_packed_file_has(sweep, tmp_path, capsys):
    assert lpo("pack", sweep, "--out", tmp_path / "a.parquet") == 0
    assert lpo("plot", tmp_path / "a.parquet", "--metric", "policy/kl") == 2
    assert "choose one of bonus/mean, eval/return, rollout/return" in capsys.readouterr().err


def test_a_packed_run_has_no_clip_and_the_page_says_so(sweep, tmp_path):
    assert lpo("pack", sweep, "--out", tmp_path / "a.parquet") == 0
    clips = make_clips(Runs([tmp_path / "a.parquet"]), beside_report(tmp_path / "report"))
    assert clips.files == {} and not (tmp_path / "report").exists()
    assert "No clip of 2 cells" in clips.note and "packed without its policy" in clips.note


@pytest.mark.slow
def test_the_best_policy_of_a_cell_is_packed_and_acts(tiny, tmp_path):
    from lpo.policy import Policy
    from lpo.runs.run import start

    for seed in range(2):
        c = tiny(steps=320, seed=seed, eval_every=160, checkpoint_every=160)
        with start(c, tmp_path / "runs" / f"s{seed}") as run:
            run.advance(320)
    assert lpo("pack", tmp_path / "runs", "--out", tmp_path / "a.parquet") == 0
    packed = Runs([tmp_path / "a.parquet"]).runs
    best = max(packed, key=lambda run: run.best)
    assert [run.policy is not None for run in packed] == [run is best for run in packed]
    assert best.policy is not None
    obs = np.ones((3, 11))
    policies = Policy.from_bytes(best.policy, "x"), Policy.load(tmp_path / "runs" / best.name)
    a, b = (policy.predict(obs, deterministic=True)[0] for policy in policies)
    np.testing.assert_array_equal(a, b)
    for damage in (b"", best.policy[:100], b"x" * 200):
        with pytest.raises(LPOError, match="pack the runs again"):
            Policy.from_bytes(damage, "x")


def test_curves_are_drawn_to_a_tenth_of_a_pixel_by_their_steps():
    """Steps are between rounded points, so that roundings do not add up: 1.26, 2.52, 3.78."""
    line = '<!-- x -->\n<path d="M 1.26 -7.0049 \nL 2.52 0.999999 \nL 3.78 1 \nz\n" id="a"/>\n  '
    assert slim(line) == '\n<path d="M1.3 -7 l1.2 8 1.3 0 z" id="a"/>\n'
    bent = '<path d="M 0.04 0 \nC 1.26 2 3 4 5 6 \nL 1 1 \n"/>'  # curves keep their points
    assert slim(bent) == '<path d="M 0 0\nC 1.3 2 3 4 5 6\nL 1 1\n"/>'


def test_a_long_curve_is_thinned_to_eighty_points_with_both_ends():
    x = np.arange(1000)
    assert len(thin(x)) == 80 and (thin(x)[0], thin(x)[-1]) == (0, 999)
    np.testing.assert_array_equal(thin(x[:5]), x[:5])


def unguarded(page) -> str:
    """The page without the line that forbids scripts to a browser, so that a probe can run."""
    text, removed = re.subn(r"<meta http-equiv=[^>]*>", "", page.read_text())
    assert removed == 1
    return text


def browse(page, folder, width=1280) -> list[str]:
    """Returns what Chromium writes to its console while it draws a page to shot.png."""
    flags = """--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run
        --disable-component-update --disable-sync --enable-logging=stderr"""
    ended = subprocess.run(
        ["chromium", *flags.split(), f"--user-data-dir={folder / 'profile'}",
         f"--window-size={width},2000", f"--screenshot={folder / 'shot.png'}", page.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return [line for line in ended.stderr.splitlines() if "CONSOLE" in line]


MARKUP = """</title></style><img src=x onerror="console.log('hacked')">"><b onclick=x>'<script>\
console.log("hacked")</script>$\\frac{ | & \x1b[2J é"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_a_run_whose_every_text_is_markup_is_shown_as_text(tmp_path):
    task = {
        "id": MARKUP, "preset": MARKUP, "quantity": MARKUP, "threshold": 0.5, "max_return": 10.0,
        "env_kwargs": {MARKUP: MARKUP},
        "projection": [TASK["projection"][i] | {"name": MARKUP} for i in (0, 1)],
    }  # fmt: skip
    name = MARKUP.replace("/", "∕").replace("\x1b", "")
    names = [f"{i}{name}" for i in range(2)]
    for i, run in enumerate(names):
        options = {"env": MARKUP, "env_kwargs": {MARKUP: MARKUP}, "threshold": MARKUP, "seed": i}
        path = write_run(tmp_path / "g" / run, [1.0, 2.0], task=task, **options)
        timing = {"env_steps": 2000, f"time/{MARKUP}_s": 3.0}
        (path / "timing.jsonl").write_text(json.dumps(timing) + "\n")
    rows = [{"name": run, "label": f"{i}{MARKUP}"} for i, run in enumerate(names)]
    (tmp_path / "g" / "sweep.json").write_text(json.dumps({"name": MARKUP, "runs": rows}))
    assert lpo("report", tmp_path / "g", "--title", MARKUP, "--out", tmp_path / "r") == 0
    page = tmp_path / "r" / "index.html"
    assert "No clip of 2 cells" in page.read_text()
    probe = """<script>addEventListener("load", () => {
        const all = [...document.querySelectorAll("*")];
        const odd = all.filter(e => [...e.attributes].some(a => a.name.startsWith("on")));
        const tags = [...new Set(all.map(e => e.localName))].sort().join(" ");
        const text = document.body.innerText.split("hacked").length;
        const far = [...document.images].filter(i => !i.src.startsWith("data:")).length;
        const seen = [document.scripts.length, odd.length, far, text > 20, tags];
        console.log("probe:" + seen.join(";"));
    })</script></body>"""
    page.write_text(unguarded(page).replace("</body>", probe))
    said = browse(page, tmp_path)
    assert len(said) == 1, said
    scripts, odd, far, shown, tags = re.findall(r'probe:(.*?)"', said[0])[0].split(";")
    assert (scripts, odd, far, shown) == ("1", "0", "0", "true")
    known = """body code details div figcaption figure footer h1 h2 head html img link meta p script
        span style summary table tbody td th title tr"""
    assert set(tags.split()) == set(known.split())
    for file in (tmp_path / "r" / "data").glob("*.md"):
        assert not re.search(r"(?<!\\)<\w", file.read_text()), file


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desk"])
def test_a_browser_shows_the_page_without_a_complaint(sweep, tmp_path, width):
    """Chromium logs every message of its console; the page must not be wider than the screen."""
    assert lpo("report", sweep, "--no-clips") == 0
    page = sweep / "report" / "index.html"
    # a window has a least width, a document has not
    probe = f"""<script>addEventListener("load", () => {{
        document.documentElement.style.width = "{width}px";
        const parts = [...document.querySelectorAll("body > *, figure, img")];
        const right = parts.map(part => part.getBoundingClientRect().right);
        console.log("right:" + Math.ceil(Math.max(...right)));
    }})</script></body>"""
    page.write_text(unguarded(page).replace("</body>", probe))
    said = browse(page, tmp_path, width)
    assert len(said) == 1 and "right:" in said[0], said
    assert width * 0.8 < int(re.findall(r"right:(\d+)", said[0])[0]) <= width
    assert (tmp_path / "shot.png").stat().st_size > 10_000


def test_a_table_has_the_columns_of_all_its_rows(tmp_path):
    """The clock of a host knows more parts than that of a device, and a report may hold both."""
    rows = [{"run": "a", "s": 1.0}, {"run": "b", "s": 2.0, "learn_s": 1.5}]
    write_tables({"runs": rows}, tmp_path)
    text = (tmp_path / "runs.csv").read_text()
    assert text.splitlines() == ["run,s,learn_s", "a,1.0,", "b,2.0,1.5"]


def test_sampled_actions_and_success_have_columns_where_they_were_logged(tmp_path):
    """As of a task whose policy is stuck by its mode."""
    task = {"id": "Grid-v0"}  # which declares no largest return
    for seed in range(3):
        path = write_run(tmp_path / f"a{seed}", [0.0] * 4, task=task, seed=seed, threshold=None)
        metrics = path / "metrics.jsonl"
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        for row in rows:
            row |= {"eval/success": 0.0, "eval/sampled_return": 2.0, "eval/sampled_success": 0.96}
        metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert lpo("report", tmp_path, "--no-clips", "--out", tmp_path / "page") == 0
    html = (tmp_path / "page" / "index.html").read_text()
    for text in ("sampled return, IQM", "success by mode", "success sampled", "96%"):
        assert text in html, text
    assert "of the mode of the policy" in html and "above half" not in html
    cell = cell_rows(Runs([tmp_path]))[0]
    assert (cell["sampled_iqm"], cell["success"], cell["sampled_success"]) == (2.0, 0.0, 0.96)


def test_a_report_says_where_methods_differ_in_tuning(sweep, tmp_path):
    tuned = "These methods also differ in tuning"
    assert lpo("report", sweep, "--no-clips") == 0
    assert tuned not in (sweep / "report" / "index.html").read_text()
    write_run(tmp_path / "more", [0.0, 5.0], algo="rnd", epochs=3, batch_size=64)
    assert lpo("report", sweep, tmp_path / "more", "--no-clips", "--out", tmp_path / "page") == 0
    html = (tmp_path / "page" / "index.html").read_text()
    assert f"{tuned} (" in html and "epochs" in html and "--bonus none" in html

"""Wrong values are answered by one sentence with its remedy, and nothing is made."""

import pytest

import lpo.cli
from lpo import Agent, LPOError
from tests.wrong import COMMAND, PYTHON

REMEDIES = (
    "pass ", "choose ", "lower ", "raise ", "leave ", "did you mean", "see `", "install ", "use ",
    "wrap ", "correct ", "give ", "Did you mean", " must be ", "let ", "train again",
)  # fmt: skip


def is_one_sentence(text: str) -> bool:
    return "\n" not in text and text.rstrip()[-1] in ".?" and any(r in text for r in REMEDIES)


def test_the_tables_are_long_enough():
    assert len(PYTHON) >= 60 and len(COMMAND) >= 60


@pytest.mark.parametrize(("options", "words"), PYTHON, ids=lambda x: str(x)[:40])
def test_python_answers_in_one_sentence(options, words):
    with pytest.raises(LPOError) as caught:
        Agent("lpo/SparseHopper-v0", **options).config.task.check()
    assert words in str(caught.value), str(caught.value)
    assert is_one_sentence(str(caught.value)), str(caught.value)


@pytest.mark.parametrize(("line", "words"), COMMAND, ids=lambda x: str(x)[:40])
def test_the_command_answers_in_one_sentence(line, words, tmp_path, monkeypatch, capsys, faulty):
    monkeypatch.chdir(tmp_path)
    arguments = line.split()
    arguments += ["--out", "run"] if arguments[:1] == ["train"] else []
    with pytest.raises(SystemExit) as ended:
        lpo.cli.main(arguments)
    said = capsys.readouterr()
    assert ended.value.code == 2
    error = said.err.strip()
    if not arguments:
        assert words in said.out
        return
    assert words in error, error
    assert error.startswith("lpo: ") and is_one_sentence(error), error
    assert list(tmp_path.iterdir()) == []

"""The words of the pages for users keep the rules that a test can hold."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INDEX = (DOCS / "index.md").read_text()
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-ZÂ`*\[])|\n\n+|\n(?=[-|#*\d])|(?<=:)\n")
SAID = {  # what a reader has to read twice, and what to write instead
    r"; (?:it|its|they|those|these|one|that|this) ": "name the subject after a semicolon",
    r"\b(?:no longer|any more|used to be|was run again|in the meantime)\b": "no history",
    r"(?:^|[.;] )Who \w+": "write: if you …",
    r"(?:^|[.;] )(?:Those|One|None) (?:is|are|of these|that)\b": "name the subject",
    r"\bgoes? on (?:with|from|in|under|where)\b": "continues",
    r"\bwhere there (?:is|are) (?:one|none)\b": "write: if …",
    r"(?<![\w.,])-?\.\d": "0.5 and not .5",
    r"\b(?:told|of its own|no fair control)\b": "the usual word",
}
LONGEST = 40  # words of a sentence
SHORT = {"README.md": 34, "docs/quickstart.md": 34}


def users_pages() -> list[str]:
    """README and the pages of the site that stand before the evidence."""
    trees = re.findall(
        r"```\{toctree\}\n:caption: ([^\n]+)\n:hidden:\n\n(.*?)```", INDEX, re.DOTALL
    )
    assert [caption for caption, _ in trees][-1] == "Evidence" and len(trees) >= 2
    names = [name for _, pages in trees[:-1] for name in pages.split()]
    names += [f"algorithms/{page.stem}" for page in sorted((DOCS / "algorithms").glob("[a-z]*.md"))]
    pages = (f"docs/{name}.md" for name in dict.fromkeys(names) if (DOCS / f"{name}.md").exists())
    return ["README.md", "docs/index.md", *pages]


def prose(page: str) -> str:
    return CODE.sub("X", FENCE.sub("", (ROOT / page).read_text()))


def sentences(text: str) -> list[str]:
    found = (" ".join(part.split()) for part in SENTENCE.split(text) if part.strip())
    return [re.sub(r"^(?:[-*]|\d+\.) ", "", sentence) for sentence in found]


def broken(text: str) -> list[str]:
    found = []
    for sentence in sentences(text):
        for rule, instead in SAID.items():
            if match := re.search(rule, sentence):
                found.append(f"{instead}: {match[0]!r} in {sentence!r}")
    return found


def test_the_rules_find_what_they_are_for():
    bad = """A file is read; it is data. The bonus no longer steers.

- Who installs a plug-in trusts it. A run goes on from its state. It has .93."""
    words = ["name the subject after", "no history", "write: if you", "continues", "0.5 and not"]
    found = broken(bad)
    assert len(found) == len(words)
    assert all(line.startswith(word) for line, word in zip(found, words, strict=True))
    assert broken("The default scores 0.93; RND scores 0.51. The run continues from v1.2.3.") == []


def test_the_pages_for_users_are_these():
    pages = users_pages()
    needed = "install quickstart tutorial read-a-run practice sweeps algorithms/extending deploy"
    for name in (*needed.split(), "from-sb3", "from-cleanrl"):
        assert f"docs/{name}.md" in pages
    evidence = INDEX[INDEX.index(":caption: Evidence") :]
    for name in ("results/README", "adr/README", "supply-chain", "files-tested"):
        assert name in evidence and f"docs/{name}.md" not in pages


@pytest.mark.parametrize("page", users_pages())
def test_the_words_keep_the_rules(page):
    assert broken(prose(page)) == []


@pytest.mark.parametrize("page", users_pages())
def test_sentences_are_short(page):
    limit = SHORT.get(page, LONGEST)
    long = [s for s in sentences(prose(page)) if not s.startswith("|") and len(s.split()) > limit]
    assert long == []

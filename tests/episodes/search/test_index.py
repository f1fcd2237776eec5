"""Tests of the text search, which finds the same episodes on every database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from pytest_django import DjangoAssertNumQueries

from episodes.models import Episode, Step, TranscriptText
from episodes.search import documents, index
from episodes.search.word_table import BLOCK_SUBJECTS
from tests.rows import each
from tests.stored import make_episode, make_step

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_found_before() -> Iterator[None]:
    index.empty()
    yield


def said(*texts: str, **values: int) -> Episode:
    """Return an episode whose transcript contains `texts` and is in the index."""
    episode = make_episode(steps_count=len(texts), **values)
    for text in texts:
        make_step(episode, text, tool="submit", input="{}")
    index.index([episode.pk])
    return episode


@pytest.mark.parametrize(
    "text",
    [
        "fox",
        "FOX",
        "quick fox",
        "fox quick",
        '"quick brown"',
        '"submit the quick"',
        "bro*",
        '"quick bro*"',
        "data.txt",
        "/tmp/data",
        "caf\u00e9",
        "cafe",
        "\u4eac",
        '"\u6771\u4eac"',
        "jumps",
        "3.14",
        "don't",
    ],
)
def test_it_finds(text: str) -> None:
    episode = said(
        "The quick brown fox", "jumps over /tmp/data.txt, caf\u00e9 \u6771\u4eac\u90fd 3.14 don't"
    )
    assert list(index.matching(text)) == [episode.pk]


@each(
    "text",
    [
        "dog",
        "fox dog",
        '"brown quick"',
        "qui",
        "own*",
        '"quick fox"',
        "fox -quick dog",
        "",
        "*",
        '""',
        "!!!",
    ],
)
def test_it_does_not_find(text: str) -> None:
    said("The quick brown fox")
    assert list(index.matching(text)) == []


HOSTILE = [
    "'",
    '"',
    "' OR 1=1 --",
    "NEAR(a b)",
    "a AND",
    "words:fox",
    "{words}: x",
    "^fox",
    "fox & !dog | (",
    "fox <-> ",
    "fox:*A",
    "%s %(x)s %",
    "\0fox",
    "\ud800",
    "(" * 5000,
    "x" * 100_000,
    '"' * 999,
    "a*" * 500,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_search_is_an_error(text: str) -> None:
    said("fox")
    assert len(index.matching(text)) <= 1


def test_any_text_can_be_indexed() -> None:
    episode = said(*HOSTILE, "\x1b[31m\u202e</script>", "found")
    assert list(index.matching("found")) == [episode.pk]


def test_the_newest_come_first_and_no_more_than_requested() -> None:
    episodes = [said("fox").pk for _ in range(5)]
    assert list(index.matching("fox", 3)) == episodes[:1:-1]
    assert list(index.matching("fox", None)) == episodes[::-1]


@pytest.mark.parametrize("text", ["fox", "quick fox", '"quick brown"', "qui*"])
def test_it_goes_back_as_far_as_it_has_to(text: str) -> None:
    episodes = [said("the quick brown fox", pk=pk).pk for pk in (3, 100_000, 1_000_000, 30_000_000)]
    for most in (1, 2, 3, 4, None):
        assert list(index.matching(text, most)) == episodes[::-1][:most]


ONE_IN_THREE = range(0, 60, 3)


@pytest.mark.parametrize(
    "blocks",
    [range(60), range(50, 60), range(10), ONE_IN_THREE, (59,), (0, 1, 2, 20, 59), (20, 21)],
    ids=str,
)
def test_it_finds_the_newest_however_they_are_spread(blocks: Sequence[int]) -> None:
    size = BLOCK_SUBJECTS
    for block in range(60):
        said("a quick fox" if block in blocks else "a quick dog", pk=block * size + 5)
    expected = [block * size + 5 for block in sorted(blocks, reverse=True)]
    for text, most in product(("fox", "fox*", '"quick fox"', "quick fox"), (1, 2, 5, 30)):
        assert list(index.matching(text, most)) == expected[:most], (text, most)


def test_it_is_a_condition_on_episodes_in_one_query(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    episode = said("fox")
    said("dog")
    with django_assert_num_queries(1):
        assert [row.pk for row in Episode.objects.filter(pk__in=index.matching("fox"))] == [
            episode.pk
        ]


def test_to_index_again_changes_nothing() -> None:
    episode = said("fox")
    index.index([episode.pk])
    assert list(index.matching("fox")) == [episode.pk]


def test_indexing_again_replaces_the_document() -> None:
    episode = said("fox")
    make_step(episode, "dog")
    index.index([episode.pk])
    assert list(index.matching("fox dog")) == [episode.pk]


def test_a_number_that_is_given_again_is_not_found_by_what_it_said_before() -> None:
    episode = said("fox")
    episode.steps.all().delete()
    make_step(episode, "dog")
    index.index([episode.pk])
    assert list(index.matching("fox")) == []


def test_an_episode_that_is_gone_is_not_found() -> None:
    episode = said("fox")
    index.index([episode.pk, episode.pk + 1000])
    episode.delete()
    assert not Episode.objects.filter(pk__in=index.matching("fox")).exists()


def test_it_can_forget_everything() -> None:
    said("fox")
    index.empty()
    assert list(index.matching("fox")) == []
    assert not TranscriptText.objects.exists()
    assert list(index.matching("owl")) == []


def long_episode(monkeypatch: pytest.MonkeyPatch, *texts: str) -> Episode:
    """Return an episode that is indexed with a part for each of `texts`."""
    monkeypatch.setattr(documents, "PART_CHARACTERS", 20)
    return said(*(f"{text:.<14}" for text in texts))


@pytest.mark.parametrize(
    "text", ["owl", "fox owl", "fox dog owl", '"white owl"', "whi*", '"quick fox"']
)
def test_a_long_transcript_is_found_by_words_of_any_part(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    episode = long_episode(monkeypatch, "the quick fox", "the lazy dog", "a white owl")
    assert TranscriptText.objects.count() == 3
    assert list(index.matching(text)) == [episode.pk]


@pytest.mark.parametrize("text", ['"dog owl"', '"dog white"', '"fox lazy"'])
def test_words_of_several_parts_are_no_phrase(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    long_episode(monkeypatch, "the quick fox", "the lazy dog", "a white owl")
    assert list(index.matching(text)) == []


def test_all_parts_are_replaced_and_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    episode = long_episode(monkeypatch, "the quick fox", "the lazy dog", "a white owl")
    index.index([episode.pk])
    assert TranscriptText.objects.count() == 3
    index.erase([episode.pk])
    index.index([long_episode(monkeypatch, "cat").pk])
    assert not TranscriptText.objects.filter(episode_id=episode.pk).exists()
    assert list(index.matching("the")) == []


def test_the_last_of_thousands_of_steps_is_found() -> None:
    episode = make_episode(steps_count=2_500)
    first = make_step(episode, "owl " * 200_000)
    values = {
        field.attname: getattr(first, field.attname)
        for field in Step._meta.fields
        if field.name != "id"
    }
    values |= {"input": "{}", "output": "{}"}
    Step.objects.bulk_create(
        Step(**values | {"index": n, "task_id": f"t{n}"}) for n in range(1, 2_499)
    )
    make_step(episode, "the end", index=2_499)
    index.index([episode.pk])
    assert list(index.matching('"the end"')) == list(index.matching("owl the end")) == [episode.pk]

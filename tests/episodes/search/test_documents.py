"""Tests of the documents that are made of transcripts."""

from __future__ import annotations

import json
from functools import partial

import pytest
from pytest_django import DjangoAssertNumQueries

from episodes.models import Episode
from episodes.search import documents
from episodes.search.documents import SearchDocument, documents_of
from tests.rows import each
from tests.stored import make_blob, make_episode, make_step

pytestmark = pytest.mark.django_db


def words(episode: Episode) -> list[str]:
    [document] = documents_of([episode.pk])
    return document.parts()[0].text.split()


def output(*blocks: object) -> str:
    return json.dumps(
        {"blocks": blocks, "metadata": {"hidden": "meta"}, "reward": None, "finished": False}
    )


def played(**values: object) -> Episode:
    return make_episode(**{"steps_count": 1, **values})


def test_it_is_prompt_tool_input_output_and_error_in_order() -> None:
    episode = played(prompt=make_blob('[{"type": "text", "text": "Add them"}]'))
    make_step(episode, "out", tool="sum_up", input='{"numbers": [1, 2.5]}', error="went wrong")
    assert " ".join(words(episode)) == "add them sum up 1 2 5 out went wrong"


def test_messages_of_a_prompt_count_with_their_blocks() -> None:
    episode = played(
        prompt=make_blob('[{"role": "system", "blocks": [{"type": "text", "text": "be kind"}]}]')
    )
    assert words(episode) == ["be", "kind"]


def test_images_say_nothing() -> None:
    episode = played()
    image = {"type": "image", "data": "aGVsbG8", "mimeType": "image/png"}
    make_step(
        episode, tool="look", input="{}", output=output(image, {"type": "text", "text": "seen"})
    )
    assert words(episode) == ["look", "seen"]


def test_names_count_below_the_first_level_of_an_input() -> None:
    episode = played()
    make_step(episode, tool="set", input='{"env": {"DEBUG": true}}', output=output())
    assert words(episode) == ["set", "debug", "true"]


def test_large_inputs_and_outputs_are_read_from_their_blobs() -> None:
    episode = played()
    blobs = {
        "input_blob": make_blob('{"code": "first"}'),
        "output_blob": make_blob(output({"type": "text", "text": "z"})),
    }
    make_step(episode, tool="run", input="", **{**blobs, "output": ""})
    assert words(episode) == ["run", "first", "z"]


@each("broken", ["{", '"text"', "[[[1", "{}", '{"blocks": 3}'])
def test_unknown_shapes_of_output_are_accepted(broken: str) -> None:
    episode = played()
    make_step(episode, tool="odd", input=broken, output=broken)
    assert words(episode)[0] == "odd"


def test_terminal_sequences_are_no_words() -> None:
    episode = played()
    make_step(episode, "\x1b[31mFAI\x1b[0mLED\x1b]0;title\x07 10%\r100%", tool="t", input="{}")
    assert words(episode) == ["t", "100"]


def test_a_long_episode_is_read_until_its_document_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_STEPS_PER_QUERY", 2)
    document = long_document(monkeypatch, steps=9, characters_left=11)
    assert document.parts()[0].text == "t out0 t out1 t"
    assert document.is_cut


def long_document(monkeypatch: pytest.MonkeyPatch, steps: int, **values: int) -> SearchDocument:
    """Return the document of an episode whose steps have different words, with other limits."""
    monkeypatch.setattr(documents, "SearchDocument", partial(SearchDocument, **values))
    episode = played(steps_count=steps)
    for n in range(steps):
        make_step(episode, f"out{n}", tool="t", input="{}")
    [document] = documents_of([episode.pk])
    return document


def test_a_long_document_has_parts_and_the_first_has_the_words_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(documents, "PART_CHARACTERS", 10)
    document = long_document(monkeypatch, steps=5)
    assert [part.text for part in document.parts()] == ["t out0 t out1", "t out2 t out3", "t out4"]
    assert document.parts()[0].others == ["out2", "out3", "out4"]
    assert not document.is_cut


def test_a_long_text_is_divided_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "PART_CHARACTERS", 10)
    document = SearchDocument(1)
    document.add("quick brown fox")
    assert [part.text for part in document.parts()] == ["quick", "brown fox"]


def test_too_many_different_words_make_a_document_incomplete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(documents, "PART_CHARACTERS", 10)
    document = long_document(monkeypatch, steps=5, _room_of_others=10)
    assert document.parts()[0].others == ["out2", "out3"]
    assert document.is_cut


def test_what_is_too_large_to_be_read_makes_a_document_incomplete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(documents, "MAX_BLOB_BYTES", 10)
    monkeypatch.setattr(documents, "SMALL_BLOB_BYTES", 10)
    episode = played()
    make_step(
        episode,
        tool="t",
        input="{}",
        output="",
        output_blob=make_blob(output({"type": "text", "text": "z"})),
    )
    [document] = documents_of([episode.pk])
    assert (document.parts()[0].text, document.is_cut) == ("t", True)


def test_episodes_are_read_together(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    episodes = [played(prompt=make_blob('"p"')) for _ in range(5)]
    for episode in episodes:
        make_step(episode)
    with django_assert_num_queries(4):  # episodes, prompts, steps, rollouts
        assert len(documents_of([episode.pk for episode in episodes])) == 5


def test_an_episode_that_is_gone_has_no_document() -> None:
    assert documents_of([12345]) == []


def test_the_texts_of_many_calls_stay_in_order() -> None:
    count = documents.MAX_TEXTS_AT_ONCE
    episode = played(steps_count=count)
    for n in range(count):
        make_step(episode, f"out{n}", tool="t", input=f'{{"n": "in{n}"}}')
    assert words(episode) == [word for n in range(count) for word in ("t", f"in{n}", f"out{n}")]

"""The panel "What the agent sees": prompt and tools in the format of every provider, for any
record."""

from __future__ import annotations

import json

from django.template.loader import render_to_string

from episodes.people.agent_view import agent_view_of
from episodes.people.provider_formats import prompt_as, tools_as
from tests.rows import each

PROMPT = [{"type": "text", "text": "Find </pre> it."}]
TOOLS = [
    {
        "name": "look",
        "description": "Look.",
        "input_schema": {"type": "object", "properties": {"at": {"anyOf": [{}]}}},
    }
]


def test_it_has_the_format_of_every_provider() -> None:
    views = agent_view_of(json.dumps(PROMPT), json.dumps({"tools": TOOLS})).views
    assert [view.key for view in views] == ["openai", "anthropic", "google"]
    assert [json.loads(view.prompt) for view in views] == [
        prompt_as(PROMPT, view.key) for view in views
    ]
    assert [json.loads(view.tools) for view in views] == [
        tools_as(TOOLS, view.key) for view in views
    ]


def test_the_data_of_images_is_shortened() -> None:
    image = {
        "type": "image",
        "data": "iVBORw0KGgo=".rstrip("=") + "A" * 50_001,
        "mimeType": "image/png",
    }
    view = agent_view_of(json.dumps([image]), "[]")
    assert view.has_images and all(
        len(one.prompt) < 1000 and "characters)" in one.prompt for one in view.views
    )


@each(
    "prompt", ["", "null", "5", "[5]", '[{"role": "user"}]', '[{"type": "image"}]', "{", "[" * 5000]
)
@each("tools", ["", "null", '{"tools": 5}', '[5, {"input_schema": {"anyOf": 3}}]', "{"])
def test_odd_records_become_sentences(prompt: str, tools: str) -> None:
    assert all(view.prompt and view.tools for view in agent_view_of(prompt, tools).views)


def test_the_panel_shows_one_and_hides_the_others() -> None:
    html = render_to_string(
        "people/agent_view.html", {"agent_view": agent_view_of(json.dumps(PROMPT), "[]")}
    )
    assert html.count('role="tab"') == 3 and html.count(" hidden>") == 2
    assert "Find &lt;/pre&gt; it." in html

"""What the examples of clients call counts as an attempt in each bundled environment."""

from __future__ import annotations

import json

from django.conf import settings

from environments.authoring.hosted_class import HostedClass
from environments.authoring.registry import load_class
from environments.display import parts
from environments.display.task_line import summary
from episodes.figures.environments.client_examples import example_call
from tests.environments.runtime.play import Play
from tests.rows import each


@each("origin", settings.ORSWEB_BUNDLED_ENVIRONMENTS)
async def test_the_example_of_a_bundled_environment_is_a_call_that_it_answers(origin: str) -> None:
    hosted = load_class(origin)
    assert isinstance(hosted, HostedClass)
    spec = json.dumps(hosted.cls.list_tasks("train")[0])
    call = example_call(
        parts.tools(hosted.tools_json), summary(spec, hidden_fields=hosted.hidden_fields)
    )
    assert call is not None
    async with Play(hosted.cls) as play:
        await play.open("s", split="train", index=0)
        body = (await play.answer("s", call.tool, **call.input)).body
        assert body["ok"], (call, body)
        await play.service.delete("s", "")
    assert [step.status for step in play.record.steps] == ["ok"]

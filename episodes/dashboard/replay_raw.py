"""The recorded JSON texts and images of an episode, unchanged. The replay links to them."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.display import parts
from environments.filtering.addresses import takes
from episodes.dashboard.replay import find
from episodes.models import Step
from episodes.transcript.cards import image_response
from episodes.transcript.steps import step_json
from episodes.visibility import TaskGuard


@require_safe
@cache_control(private=True, max_age=3600)
@takes()
def image(request: HttpRequest, pk: int, index: int, number: int) -> HttpResponse:
    """Return the image in block `number` of the output of a step. Steps never change, so the
    response may be cached."""
    output = parts.read_json(_step(pk, index).output_json or "{}")
    blocks = output.get("blocks") if isinstance(output, dict) else None
    return image_response(parts.blocks(blocks or []), number)


@require_safe
@cache_control(private=True, max_age=3600)
@takes()
def prompt_image(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """Return the image at position `number` of the prompt."""
    episode = find(pk)
    return image_response(parts.prompt(episode.prompt.text if episode.prompt else ""), number)


@require_safe
@takes()
def step(request: HttpRequest, pk: int, index: int) -> HttpResponse:
    """Return one step in full, with the exact texts of its input and output."""
    return _json(step_json(_step(pk, index)))


@require_safe
@takes()
def text(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    """Return the prompt, the tools or the task of the episode in full."""
    episode = find(pk)
    if name == "task":
        guard = TaskGuard(viewer_of(request.user))
        spec = guard.spec(episode.task_id, episode.environment.name, episode.task.spec)
        return _json(spec or "null")
    if name not in ("prompt", "tools"):
        raise Http404(f"An episode has no {name[:50]!r}; it has prompt, tools and task.")
    blob = episode.prompt if name == "prompt" else episode.tools
    return _json(blob.text if blob else "null")


def _json(content: str) -> HttpResponse:
    return HttpResponse(content, content_type="application/json")


def _step(pk: int, index: int) -> Step:
    steps = Step.objects.select_related("input_blob", "output_blob")
    step = steps.filter(episode=pk, index=index).first()
    if step is None:
        raise Http404(f"Episode {pk} has no step {index}. The replay shows the steps it has.")
    return step

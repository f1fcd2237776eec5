"""The page of a question, for forms that end something for good and were sent without the answer.

Pages ask it in a dialog of their own, whose button sends `confirm`.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def question(
    request: HttpRequest, title: str, sentence: str, label: str, back: str
) -> HttpResponse | None:
    """Return the page that asks; None if the form has the answer. `label`: of its button; `back`:
    address without."""
    if "confirm" in request.POST:
        return None
    context = {"title": title, "sentence": sentence, "label": label, "back": back}
    return render(request, "people/question.html", context)

"""axe, which finds what keeps people out of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import axe_playwright_python
from playwright.sync_api import Page

SCRIPT = Path(axe_playwright_python.__file__).parent / "axe.min.js"
COLOURS = "color-contrast"
"""The one rule whose result depends on the colour scheme; it takes more time than all others together."""
Rules = Literal["all", "colours", "layout"]
OPTIONS: dict[Rules, dict[str, Any]] = {
    "all": {},
    "colours": {"runOnly": {"type": "rule", "values": [COLOURS]}},
    "layout": {"rules": {COLOURS: {"enabled": False}}},
}
"""Options of axe: every rule, those that another colour scheme may break, and those that another width may break."""


KEEP_COLOURS = """(() => {
  const { Color } = axe.commons.color;
  const parse = Color.prototype.parseString;
  const known = new Map();
  Color.prototype.parseString = function (text) {
    if (!known.has(text)) known.set(text, parse.call(new Color(), text));
    const { r, g, b, alpha } = known.get(text);
    return Object.assign(this, { r, g, b, alpha });
  };
})()"""
"""Lets axe parse each colour once, instead of once for each element of each text: a third of the time of that rule."""


RUN = """async ([options, isSerious]) => {
  const isLeftOut = (rule) => isSerious && !["serious", "critical"].includes(rule.impact);
  const leftOut = axe._audit.rules.filter(isLeftOut).map((rule) => [rule.id, { enabled: false }]);
  await new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
  const rules = { ...Object.fromEntries(leftOut), ...options.rules };
  return (await axe.run({ resultTypes: ["violations"], ...options, rules })).violations;
}"""
"""Returns what axe finds once scripts have seen the page's size, or only what is serious or critical.

What a rule finds has the rule's impact, so that the other rules need not run.
"""


def load_axe(page: Page) -> None:
    page.evaluate(SCRIPT.read_text(encoding="utf-8"))  # as the debugger does, which no policy stops
    page.evaluate(KEEP_COLOURS)


def serious(page: Page, rules: Rules = "all") -> list[Any]:
    """Return id and places of each serious or critical violation. The page has loaded axe."""
    found = page.evaluate(RUN, [OPTIONS[rules], True])
    assert {one["impact"] for one in found} <= {"serious", "critical"}
    return [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]


def violations(page: Page, rules: Rules = "all") -> list[dict[str, Any]]:
    """Return each violation as axe reports it. The page has loaded axe."""
    return list(page.evaluate(RUN, [OPTIONS[rules], False]))

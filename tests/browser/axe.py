"""axe, which finds what keeps people out of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import axe_playwright_python
from playwright.sync_api import Page

SCRIPT = Path(axe_playwright_python.__file__).parent / "axe.min.js"
COLOURS = ("color-contrast", "link-in-text-block")
"""The rules whose result depends on the colour scheme; they take more time than all others
together."""
Rules = Literal["all", "colours", "layout"]
TARGETS = {"target-size": {"enabled": True}}
"""Targets of 24 pixels, or with room around them (WCAG 2.2, 2.5.8), which axe leaves out by
default. Links within texts may be smaller."""
OPTIONS: dict[Rules, dict[str, Any]] = {
    "all": {"rules": TARGETS},
    "colours": {"runOnly": {"type": "rule", "values": COLOURS}},
    "layout": {"rules": {**{rule: {"enabled": False} for rule in COLOURS}, **TARGETS}},
}
"""Options of axe: every rule, those that another colour scheme may break, and those that another
width may break."""


FEWER_CHECKS = """;(() => {
  const { Color } = axe.commons.color;
  const parse = Color.prototype.parseString;
  const known = new Map();
  Color.prototype.parseString = function (text) {
    if (!known.has(text)) known.set(text, parse.call(new Color(), text));
    const { r, g, b, alpha } = known.get(text);
    return Object.assign(this, { r, g, b, alpha });
  };
  let grounds, looks, count;
  axe.recallLooks = () => {
    grounds = new Map();
    looks = new Set(JSON.parse(sessionStorage.axeLooks ?? "[]"));
    count = looks.size;
  };
  axe.keepLooks = () => { if (looks.size > count) sessionStorage.axeLooks = JSON.stringify([...looks]); };
  const ground = (it) => {
    if (!it) return "";
    if (!grounds.has(it)) {
      const { backgroundColor, backgroundImage, opacity, position } = getComputedStyle(it);
      const own = [backgroundColor, backgroundImage, opacity, position].join(" ");
      grounds.set(it, ground(it.parentElement) + (own === "rgba(0, 0, 0, 0) none 1 static" ? "" : `|${own}`));
    }
    return grounds.get(it);
  };
  const text = (it) => {
    const { color, fontSize, fontWeight, textShadow } = getComputedStyle(it);
    return [it.localName, color, fontSize, fontWeight, textShadow, ground(it)].join();
  };
  const within = (it) => {
    const { borderBottom, display, fontStyle, textDecoration } = getComputedStyle(it);
    const own = [text(it), borderBottom, fontStyle, textDecoration].join();
    return display === "inline" && it.parentElement ? `${own} within ${within(it.parentElement)}` : own;
  };
  for (const [id, lookOf] of [["color-contrast", text], ["link-in-text-block", within]]) {
    const rule = axe._audit.rules.find((one) => one.id === id);
    const { matches } = rule;
    rule.matches = function (node, ...rest) {
      const look = `${id} ${lookOf(node)}`;
      if (looks.has(look) || !matches.call(this, node, ...rest)) return false;
      looks.add(look);
      return true;
    };
  }
})()"""
"""Lets axe parse each colour once, and judge one of the texts and links that look the same on the
same grounds.

What it had nothing against is kept for the other pages of a test, which have most looks in common.
"""


THIN_OUT = """() => {
  const VALUES = ["class", "role", "type"];
  const shapes = new Map();
  const shape = (it) => {
    const value = ({ name, value }) => VALUES.includes(name) ? `${name}=${value}` : `${name}${value.trim() ? "=" : ""}`;
    const within = (one) => one.nodeType === Node.ELEMENT_NODE ? shape(one) : one.data?.trim() ? "text" : "";
    const own = [...it.attributes].map(value).join(" ");
    shapes.set(it, `<${it.localName} ${own}>${[...it.childNodes].map(within).join("")}</>`);
    return shapes.get(it);
  };
  const thinOut = (it) => {
    const counts = new Map();
    for (const one of [...it.children]) {
      const count = (counts.get(shapes.get(one)) ?? 0) + 1;
      counts.set(shapes.get(one), count);
      if (count > 2) one.remove();
      else thinOut(one);
    }
  };
  shape(document.body);
  thinOut(document.body);
  for (const it of document.body.querySelectorAll("*"))
    if (["fixed", "sticky"].includes(getComputedStyle(it).position)) it.style.position = "static";
}"""
"""Removes all but two of the elements beside each other that differ only in their texts, such as
rows of a table, and lets nothing stay in view above what is scrolled, which would make targets
below it smaller."""


RUN = """async ([options, impacts]) => {
  const isLeftOut = (rule) => impacts && !impacts.includes(rule.impact);
  const leftOut = axe._audit.rules.filter(isLeftOut).map((rule) => [rule.id, { enabled: false }]);
  await new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
  axe.recallLooks();
  const rules = { ...Object.fromEntries(leftOut), ...options.rules };
  const { violations } = await axe.run({ resultTypes: ["violations"], ...options, rules });
  if (!violations.length) axe.keepLooks();
  return violations;
}"""
"""Returns what axe finds once scripts have seen the page's size, or only what has one of the
impacts.

What a rule finds has the rule's impact, so that the other rules need not run.
"""


LOAD = "'axeSource' in sessionStorage && (0, eval)(sessionStorage.axeSource) === true"


def load_axe(page: Page) -> None:
    """Load axe into the page, as the debugger does, which no policy stops.

    The tab keeps it for the other pages: half a megabyte takes most of the time on its way to the
    browser.
    """
    if not page.evaluate(LOAD):
        source = f"{SCRIPT.read_text(encoding='utf-8')}{FEWER_CHECKS};true"
        page.evaluate("(source) => { sessionStorage.axeSource = source; }", source)
        assert page.evaluate(LOAD)


def switch_scheme(page: Page, scheme: Literal["light", "dark"]) -> None:
    """Let the system ask for a colour scheme. A script of the admin sets a class then."""
    page.emulate_media(color_scheme=scheme)
    is_set = "(name) => !document.querySelector('.admin') || document.querySelector(`html${name}`)"
    page.wait_for_function(is_set, arg=".dark" if scheme == "dark" else ":not(.dark)")


def thin_out(page: Page) -> None:
    """Leave two of the elements that are alike: axe, whose time grows with a page, would say the
    same of all."""
    page.evaluate(THIN_OUT)


def serious(page: Page, rules: Rules = "all", *, is_strict: bool = False) -> list[Any]:
    """Return id and places of each serious or critical violation, with `is_strict` also of each
    moderate one. The page has loaded axe."""
    impacts = ["serious", "critical", *["moderate"] * is_strict]
    found = page.evaluate(RUN, [OPTIONS[rules], impacts])
    assert {one["impact"] for one in found} <= {*impacts}
    return [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]


def violations(page: Page, rules: Rules = "all") -> list[dict[str, Any]]:
    """Return each violation as axe reports it. The page has loaded axe."""
    return list(page.evaluate(RUN, [OPTIONS[rules], None]))

// What the agent sees: one tab per provider; arrow keys move between them.
import { keyOf } from "../orsweb/keys.js";

for (const view of document.querySelectorAll("[data-agent-view]")) {
  const tabs = [...view.querySelectorAll("[role=tab]")];
  const choose = (chosen) => {
    for (const tab of tabs) {
      const isChosen = tab === chosen;
      tab.setAttribute("aria-selected", String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !isChosen;
    }
  };
  for (const tab of tabs) tab.addEventListener("click", () => choose(tab));
  view.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[keyOf(event)];
    if (!by) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(event.target) + by + tabs.length) % tabs.length];
    choose(next);
    next.focus();
  });
}

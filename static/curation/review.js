// Keys of a task's page: to the next and previous task of the list it was opened from, and actions.
import { click, isComposing, runShortcut } from "../orsweb/keys.js";

const ask = (name) => {
  const details = document.querySelector(`details[data-ask="${name}"]`);
  if (!details) return false;
  details.open = true;
  details.querySelector("textarea, input:not([type=hidden])")?.focus();
};

const keys = {
  j: () => click("[data-review-next]"),
  k: () => click("[data-review-previous]"),
  u: () => click("[data-review-list]"),
  a: () => click("[data-accept]"),
  q: () => ask("quarantine"),
  t: () => ask("tags"),
  e: () => click("[data-edit]"),
};
document.addEventListener("keydown", (event) => {
  if (isComposing(event)) return;
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "Escape" && typing) return event.target.blur();
  if (typing && event.key === "Enter" && (event.ctrlKey || event.metaKey)) return event.target.form?.requestSubmit();
  runShortcut(event, keys);
});

// Keys of a task's page: to the next and previous task of the list it was opened from, and actions.
import { isComposing, shortcutOf } from "../orsweb/keys.js";

const press = (selector) => document.querySelector(selector)?.click();
const ask = (name) => {
  const details = document.querySelector(`details[data-ask="${name}"]`);
  if (!details) return;
  details.open = true;
  details.querySelector("textarea, input:not([type=hidden])")?.focus();
};

const keys = {
  j: () => press("[data-review-next]"),
  k: () => press("[data-review-previous]"),
  u: () => press("[data-review-list]"),
  a: () => press("[data-accept]"),
  q: () => ask("quarantine"),
  t: () => ask("tags"),
  e: () => press("[data-edit]"),
};
document.addEventListener("keydown", (event) => {
  if (isComposing(event)) return;
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "Escape" && typing) return event.target.blur();
  if (typing && event.key === "Enter" && (event.ctrlKey || event.metaKey)) return event.target.form?.requestSubmit();
  const action = keys[shortcutOf(event)];
  if (!action) return;
  event.preventDefault();
  action();
});

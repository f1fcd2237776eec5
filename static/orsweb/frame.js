// Keyboard shortcuts and switches of the frame: search (/), help (?), theme (t), pages (g and a letter).
//
// Shortcuts of a page take precedence: the page listens on document and calls preventDefault() on keys that it handles, and this
// module, which listens on window, ignores those.
import { isComposing, isTyping, runShortcut, shortcutOf } from "./keys.js";

const THEMES = ["auto", "light", "dark"];
const THEME_MARKS = { auto: "◐", light: "☀", dark: "☾" };
const THEME_NAMES = { auto: "system", light: "light", dark: "dark" };
const PREFIX_MS = 1200;

const keys = document.getElementById("keys");
const search = document.querySelector("[data-search]");
const themeSwitch = document.querySelector("[data-theme-switch]");
let prefixUntil = 0;

// --- theme -----------------------------------------------------------------------------------------------------------

// The admin stores the choice under this name, as JSON.
function theme() {
  const stored = (localStorage.getItem("adminTheme") ?? "").replaceAll('"', "");
  return THEMES.includes(stored) ? stored : "auto";
}

function showTheme() {
  const chosen = theme();
  document.documentElement.classList.toggle("light", chosen === "light");
  document.documentElement.classList.toggle("dark", chosen === "dark");
  themeSwitch.textContent = THEME_MARKS[chosen];
  themeSwitch.setAttribute("aria-label", `Theme: ${THEME_NAMES[chosen]}`);
  themeSwitch.dataset.themeSwitch = chosen;
  document.dispatchEvent(new CustomEvent("orsweb:theme", { detail: { theme: chosen } }));
}

function nextTheme() {
  const chosen = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  localStorage.setItem("adminTheme", JSON.stringify(chosen));
  showTheme();
}

// --- keys ------------------------------------------------------------------------------------------------------------

function openPage(key) {
  const link = document.querySelector(`.rail [data-key="${CSS.escape(key)}"]`);
  if (link) location.assign(link.href);
  return Boolean(link);
}

const ACTIONS = {
  "/": () => (search ? (search.focus(), search.select()) : false),
  "?": () => (keys ? keys.showModal() : false),
  t: nextTheme,
  g: () => (document.querySelector(".rail [data-key]") ? (prefixUntil = performance.now() + PREFIX_MS) : false),
};

function onKey(event) {
  if (event.key === "Escape" && isTyping(event) && !event.defaultPrevented && !isComposing(event)) return event.target.blur();
  runShortcut(event, ACTIONS);
}

// Handle the letter after g before the page does, which may use it otherwise.
function onKeyAfterPrefix(event) {
  const isAfterPrefix = performance.now() < prefixUntil;
  prefixUntil = 0;
  const key = isAfterPrefix && shortcutOf(event);
  if (!key || !openPage(key)) return;
  event.preventDefault();
  event.stopPropagation();
}

// --- search, menus and collapsed content -----------------------------------------------------------------------------

// A number opens the episode; the form itself searches for everything else.
function onSearch(event) {
  const number = /^#?(\d{1,18})$/.exec(search.value.trim());
  if (!number) return;
  event.preventDefault();
  location.assign(`${event.target.dataset.episodes}${number[1]}/`);
}

function closeMenus(event) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if ((event.key === "Escape" && !isComposing(event)) || (event.type === "click" && !menu.contains(event.target))) menu.open = false;
  }
}

// A link to content in a collapsed element expands it.
function unfoldTarget() {
  const target = location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  const fold = target?.closest("details") ?? target?.querySelector(":scope > details");
  if (fold) fold.open = true;
}

// A button that starts long work is off until the next page, which may also be this one as it was left.
function switchOnce(event) {
  for (const button of document.querySelectorAll("[data-once]")) button.disabled = event.type === "submit" && button.form === event.target;
}

themeSwitch.addEventListener("click", nextTheme);
window.addEventListener("submit", switchOnce);
window.addEventListener("pageshow", switchOnce);
document.querySelector("[data-keys-open]")?.addEventListener("click", () => keys.showModal());
keys?.addEventListener("click", (event) => event.target === keys && keys.close());
search?.form.addEventListener("submit", onSearch);
window.addEventListener("keydown", onKeyAfterPrefix, { capture: true });
window.addEventListener("keydown", onKey);
window.addEventListener("keydown", closeMenus);
window.addEventListener("click", closeMenus);
window.addEventListener("storage", (event) => event.key === "adminTheme" && showTheme());
window.addEventListener("hashchange", unfoldTarget);
unfoldTarget();
showTheme();

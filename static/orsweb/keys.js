// What a pressed key means: the same with Caps Lock, on layouts without Latin letters, and where AltGr or Option types a character.

const PLACES = { BracketLeft: "[{", BracketRight: "]}", Slash: "/?" };
const OTHER_SCRIPT = /^[^\x00-\x7f\p{Script=Latin}]+$/u;
const TYPED = /^[[\]{}?/\\|@#~]$/; // needs Option or AltGr on some layouts, and is on the row of digits of others
const HAS_OPTION = /^(Mac|iP)/.test(navigator.platform);

// Whether an input method takes the key. Safari ends a composition before the Enter that ends it, which has only the code 229.
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

export function isTyping({ target }) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input:not([type=checkbox], [type=radio]), textarea, select"));
}

// Whether Alt alone is held, for a shortcut: Option types characters in the fields of a Mac.
export function isAlt(event) {
  return event.altKey && !event.ctrlKey && !event.metaKey && !(HAS_OPTION && isTyping(event));
}

// Whether a dialog or a menu is open over the page.
export const isCovered = () => document.querySelector("dialog[open], :popover-open") !== null;

// Return what an American keyboard has at the place of the key, if that is a letter, a digit or one of PLACES.
export function placeOf({ code, shiftKey }) {
  return PLACES[code]?.[Number(shiftKey)] ?? /^Key([A-Z])$/.exec(code)?.[1] ?? (shiftKey ? undefined : /^Digit(\d)$/.exec(code)?.[1]);
}

// Whether the last letter that was typed, in a field or not, is Latin. False before: Hebrew has "/" on Q, Greek ";".
let isLatin = false;
addEventListener("keydown", ({ key }) => /^\p{L}$/u.test(key) && (isLatin = /\p{Script=Latin}/u.test(key)), { capture: true });

// Whether the place says more than the character: letters of another script and what such layouts have on
// the keys of letters, and what French types on the row of digits.
function isByPlace(key, { code, altKey }) {
  const isOnLetter = /^Key/.test(code) && /^[!-/:-@[-`{-~]$/.test(key) && !altKey && !isLatin;
  return OTHER_SCRIPT.test(key) || isOnLetter || (/^Digit/.test(code) && !TYPED.test(key));
}

// Return the letter, character or name of the key, or "" if it is for the browser or an input method.
export function keyOf(event) {
  const { shiftKey, altKey, ctrlKey, metaKey } = event;
  const key = event.key.replace(/^[！-～]$/, (wide) => String.fromCharCode(wide.charCodeAt(0) - 0xfee0)); // of Japanese layouts
  const isAltGr = event.getModifierState("AltGraph"); // Ctrl and Alt on Windows, which are a combination without it
  const isTyped = TYPED.test(key) && (isAltGr || (altKey && !ctrlKey));
  if (isComposing(event) || metaKey || ((ctrlKey || altKey) && !isTyped)) return "";
  const meant = (isByPlace(key, event) && placeOf(event)) || key;
  return /^[a-z]$/i.test(meant) ? (shiftKey ? meant.toUpperCase() : meant.toLowerCase()) : meant;
}

// Whether a key can be a shortcut of the page: nobody types, nothing covers the page or has handled the key, and it presses no control.
export function isForPage(event) {
  const pressed = { Enter: "a, button, summary", " ": "button, summary, input" }[event.key];
  return !event.defaultPrevented && !isTyping(event) && !isCovered() && !(pressed && event.target.closest?.(pressed));
}

// Return the key if it can be a shortcut of the page, or "".
export const shortcutOf = (event) => (isForPage(event) ? keyOf(event) : "");

// Do what the key means on a page. An action that returns false has nothing to do, and leaves the key to the frame and the browser.
export function runShortcut(event, actions) {
  const action = actions[shortcutOf(event)];
  if (action && action(event) !== false) event.preventDefault();
}

// Click an element. Returns false if the page does not have it.
export function click(selector) {
  const element = document.querySelector(selector);
  element?.click();
  return element !== null;
}

// What a pressed key means: the same with Caps Lock, on layouts without Latin letters, and where AltGr or Option types a character.

const PLACES = { BracketLeft: "[{", BracketRight: "]}", Slash: "/?" };
const OTHER_SCRIPT = /^[^\x00-\x7f\p{Script=Latin}]+$/u;
const isGreekQ = ({ key, code }) => code === "KeyQ" && /^[;:]$/.test(key); // the one letter key that types no letter there
const TYPED = /^[[\]{}?/\\|@#~]$/; // needs Option or AltGr on some layouts

// Whether an input method takes the key. Safari ends a composition before the Enter that ends it, which has only the code 229.
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

export function isTyping({ target }) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input:not([type=checkbox], [type=radio]), textarea, select"));
}

// Return the letter, character or name of the key, or "" if it is for the browser or an input method.
export function keyOf(event) {
  const { key, code, shiftKey, altKey, ctrlKey, metaKey } = event;
  const isTyped = altKey && TYPED.test(key); // AltGr is Ctrl and Alt on Windows
  if (isComposing(event) || metaKey || ((ctrlKey || altKey) && !isTyped)) return "";
  const place = OTHER_SCRIPT.test(key) || isGreekQ(event) ? (PLACES[code]?.[Number(shiftKey)] ?? /^Key([A-Z])$/.exec(code)?.[1]) : undefined;
  const meant = place ?? key;
  return /^[a-z]$/i.test(meant) ? (shiftKey ? meant.toUpperCase() : meant.toLowerCase()) : meant;
}

// Return the key if it can be a shortcut of the page: nobody types, no dialog is open, and nothing has handled it.
export function shortcutOf(event) {
  return event.defaultPrevented || isTyping(event) || document.querySelector("dialog[open]") ? "" : keyOf(event);
}

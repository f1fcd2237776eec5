// The JSON editor that replaces a textarea marked data-editor and keeps its text up to date. Without the editor, or in a browser
// that can't keep numbers exact, the textarea is used. Problems that the server found are shown at their fields.
import { isSupported, lossless } from "./lossless_json.js";

const INDENTATION = 2;

function textOf(content) {
  return content.text !== undefined ? content.text : lossless.stringify(content.json, null, INDENTATION);
}

function problems() {
  return [...document.querySelectorAll("#verdict [data-path]")].map((item) => ({
    path: item.dataset.path.split(".").filter(Boolean),
    message: item.querySelector("span").textContent,
    severity: "error",
  }));
}

async function replace(textarea) {
  const { JSONEditor, jmespathQueryLanguage } = await import(textarea.dataset.editor);
  const place = document.createElement("div");
  place.className = "editor";
  textarea.before(place);
  textarea.hidden = true;
  textarea.required = false;
  document.querySelector("[data-lines]")?.removeAttribute("hidden");
  const isSmall = textarea.value.length < 200_000;
  const editor = new JSONEditor({
    target: place,
    props: {
      content: { text: textarea.value },
      mode: "text",
      parser: lossless,
      indentation: INDENTATION,
      askToFormat: false,
      navigationBar: false,
      queryLanguages: [jmespathQueryLanguage], // the others are code that would be evaluated
      queryLanguageId: "jmespath",
      onChange: (content) => {
        textarea.value = textOf(content);
        textarea.dispatchEvent(new Event("input", { bubbles: true }));
      },
    },
  });
  // typed text arrives with a delay, and saving must wait for it
  addEventListener("submit", () => editor.validate(), { capture: true });
  const show = () => editor.updateProps({ validator: () => problems() });
  document.addEventListener("verdict", show);
  show();
  if (isSmall && problems().length === 0) focusFirstLine(editor, place);
}

// A browser scrolls the middle of a focused element into view, which hides the first lines of a long text.
function focusFirstLine(editor, place) {
  const scroller = place.querySelector(".cm-scroller");
  const [left, top] = [scrollX, scrollY];
  editor.focus?.();
  for (const wait of [(then) => then(), requestAnimationFrame]) {
    wait(() => {
      if (scroller) scroller.scrollTop = 0;
      scrollTo(left, top);
    });
  }
}

if (isSupported) document.querySelectorAll("textarea[data-editor]").forEach((one) => replace(one).catch(console.warn));

// ask before leaving with unsaved text
let isChanged = document.querySelector(".conflict") !== null;
document.querySelector(".editing").addEventListener("input", () => (isChanged = true));
addEventListener("submit", (event) => (isChanged &&= event.defaultPrevented)); // a check stays on the page
addEventListener("beforeunload", (event) => isChanged && event.preventDefault());

// Forms marked data-verdict are checked without leaving the page: only #verdict of the response is used. Saving, and any error,
// submits the form normally.
const KEPT = new Set(["check", "try", null]);

async function ask(form, submitter) {
  const place = document.getElementById("verdict");
  const data = new FormData(form, submitter);
  place.setAttribute("aria-busy", "true");
  try {
    // not form.action, which is the field with that name
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: data, credentials: "same-origin" });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const verdict = found.getElementById("verdict");
    if (!verdict || found.querySelector(".conflict")) return false;
    place.replaceChildren(...verdict.childNodes);
    place.scrollIntoView({ block: "nearest" });
    document.dispatchEvent(new Event("verdict"));
    return true;
  } catch {
    return false;
  } finally {
    place.removeAttribute("aria-busy");
  }
}

for (const form of document.querySelectorAll("form[data-verdict]")) {
  form.addEventListener("submit", async (event) => {
    const { submitter } = event;
    if (!form.hasAttribute("data-verdict") || !KEPT.has(submitter?.getAttribute("value") ?? null)) return;
    event.preventDefault();
    const buttons = [...form.elements].filter((one) => one.type === "submit");
    buttons.forEach((button) => (button.disabled = true));
    submitter.disabled = false; // a disabled one would not be sent
    const isShown = await ask(form, submitter);
    buttons.forEach((button) => (button.disabled = false));
    if (isShown) return;
    form.removeAttribute("data-verdict");
    form.requestSubmit(submitter);
  });
}

// Typing a number or a task selects its radio button.
for (const field of document.querySelectorAll("[data-picks]")) {
  const choice = document.querySelector(`[name=pick][value="${field.dataset.picks}"]`);
  field.addEventListener("input", () => (choice.checked = true));
}
const wrong = document.querySelector("[aria-invalid]");
if (wrong) wrong.focus();
else document.querySelector("[data-play-form] [type=submit]:not(:disabled)")?.focus({ preventScroll: true });

// The list of conversations: a changed filter is applied at once, and a click on a row opens the conversation.
const form = document.querySelector("[data-filters]");

form.addEventListener("change", () => form.requestSubmit());
form.addEventListener("submit", () => {
  for (const field of form.elements) if (field.name && !field.value) field.disabled = true; // keeps the address short
});
window.addEventListener("pageshow", () => {
  for (const field of form.elements) field.disabled = false;
});

document.querySelector(".table.rollouts tbody")?.addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (row?.dataset.href && !event.target.closest("a") && !getSelection().toString()) location.assign(row.dataset.href);
});

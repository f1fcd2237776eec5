/* h and l lead to the previous and the next group of the training step. */
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
  const rel = { h: "prev", l: "next" }[event.key];
  if (rel) document.querySelector(`.actions a[rel="${rel}"]`)?.click();
});

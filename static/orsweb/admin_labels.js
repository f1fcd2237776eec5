// On a phone each cell of a list in the admin has the name of its column before it, which Django writes in small letters.
addEventListener("DOMContentLoaded", () => {
  for (const { dataset } of document.querySelectorAll("[data-label]")) dataset.label = dataset.label.replace(/^./u, (first) => first.toUpperCase());
});

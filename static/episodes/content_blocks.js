// Texts and images of steps, on every page that shows them: expanding a long text, enlarging an image.
const zoom = document.getElementById("zoom");

function more(button) {
  const block = button.closest(".said-block, .prompt");
  const isOpen = block.matches(".prompt") ? !block.classList.toggle("folded") : block.classList.toggle("open");
  button.setAttribute("aria-expanded", String(isOpen));
  button.textContent = isOpen ? "Show less" : "Show more";
  if (!isOpen) block.scrollIntoView({ block: "nearest" });
}

function enlarge(picture) {
  const shown = zoom.querySelector("[data-zoom-image]");
  shown.src = picture.src;
  zoom.querySelector("[data-zoom-size]").textContent = `${picture.naturalWidth} × ${picture.naturalHeight} pixels. Click for actual size`;
  zoom.querySelector(".zoom-view").classList.remove("actual");
  zoom.showModal();
}

document.addEventListener("click", (event) => {
  const at = event.target.closest("[data-more], [data-prompt-more], [data-zoom], [data-zoom-image]");
  if (!at) return;
  if (at.matches("[data-zoom-image]")) at.closest(".zoom-view").classList.toggle("actual");
  else if (at.matches("[data-zoom]")) enlarge(at.querySelector("img"));
  else more(at);
});
zoom?.addEventListener("click", (event) => event.target === zoom && zoom.close());

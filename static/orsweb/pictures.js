// Replace an image that the browser can't display with a message: the browser's own icon doesn't say why.
const PICTURES = ".zoom img, .part-image";
const MESSAGE = "This image can't be displayed: it isn't in a format that browsers can read.";

function replaceWithMessage(picture) {
  const message = document.createElement("p");
  message.className = "none";
  message.textContent = MESSAGE;
  (picture.closest(".zoom") ?? picture).replaceWith(message);
}

// Error events of images don't bubble. Some images failed before this module was loaded.
document.addEventListener("error", ({ target }) => target instanceof Element && target.matches(PICTURES) && replaceWithMessage(target), { capture: true });
for (const picture of document.querySelectorAll(PICTURES)) if (picture.complete && !picture.naturalWidth) replaceWithMessage(picture);

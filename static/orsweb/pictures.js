// Replace an image that the browser can't display with a message: the browser's own icon doesn't say why.
const PICTURES = ".zoom img, .part-image";
const WORDS = "This image can't be displayed: it isn't in a format that browsers can read.";

function tell(picture) {
  const words = document.createElement("p");
  words.className = "none";
  words.textContent = WORDS;
  (picture.closest(".zoom") ?? picture).replaceWith(words);
}

// Error events of images don't bubble. Some images failed before this module was loaded.
document.addEventListener("error", ({ target }) => target instanceof Element && target.matches(PICTURES) && tell(target), { capture: true });
for (const picture of document.querySelectorAll(PICTURES)) if (picture.complete && !picture.naturalWidth) tell(picture);

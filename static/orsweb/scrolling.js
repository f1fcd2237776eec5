// Elements with more content than room scroll, and get focus so that the arrow keys can scroll them.
// The last three are in the admin.
const SCROLLABLE = ".card.flush, .scrolls, .prose :is(table, pre), .code, .diff, :is(.main, .side) > section, .card :is(table, pre), .menu > ul";

const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => updateTabStop(target)));
const additions = new MutationObserver((changes) => {
  for (const { addedNodes } of changes) for (const node of addedNodes) if (node instanceof Element) watch(node);
});

// Without scrolling, the focus would only be a useless tab stop.
function updateTabStop(element) {
  const isFull = element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
  if (isFull && /auto|scroll/u.test(getComputedStyle(element).overflow)) element.tabIndex = 0;
  else element.removeAttribute("tabindex");
}

function watch(root) {
  if (root.matches(SCROLLABLE)) sizes.observe(root);
  for (const element of root.querySelectorAll(SCROLLABLE)) sizes.observe(element);
}

addEventListener("DOMContentLoaded", () => {
  watch(document.body);
  additions.observe(document.body, { childList: true, subtree: true });
});

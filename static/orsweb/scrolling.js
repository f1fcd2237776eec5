// Elements with more content than room scroll, and get focus so that the arrow keys can scroll them. Those of tables get data-beyond, which says on
// which sides there is more, for a shadow there.
// The last three are in the admin.
const SCROLLABLE = ".card.flush, .scrolls, .prose :is(table, pre), .code, .diff, :is(.main, .side) > section, .card :is(table, pre), .menu > ul";

const TABLES = ".card.flush, .scrolls, :is(.prose, .card) table, :is(.main, .side) > section";

const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => updateTabStop(target)));
const additions = new MutationObserver((changes) => {
  for (const { addedNodes } of changes) for (const node of addedNodes) if (node instanceof Element) watch(node);
});

// Without scrolling, the focus would only be a useless tab stop.
function updateTabStop(element) {
  const isFull = element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
  if (isFull && /auto|scroll/u.test(getComputedStyle(element).overflow)) element.tabIndex = 0;
  else element.removeAttribute("tabindex");
  if (element.matches(TABLES)) showMore(element);
}

function showMore(element) {
  const { scrollLeft, scrollWidth, clientWidth } = element;
  const sides = { left: scrollLeft > 1, right: scrollLeft + clientWidth < scrollWidth - 1 };
  element.dataset.beyond = Object.keys(sides).filter((side) => sides[side]).join(" ");
}

function watch(root) {
  if (root.matches(SCROLLABLE)) sizes.observe(root);
  for (const element of root.querySelectorAll(SCROLLABLE)) sizes.observe(element);
}

document.addEventListener("scroll", ({ target }) => target instanceof Element && target.matches(TABLES) && showMore(target), { capture: true, passive: true });
addEventListener("DOMContentLoaded", () => {
  // a page that is left while it loads may have no body
  watch(document.documentElement);
  additions.observe(document.documentElement, { childList: true, subtree: true });
});

const MARGIN = 8;
const GAP = 6;

/**
 * Keep a fixed element beside a word and inside the window: below it, or above it where there is more room.
 *
 * Return what ends that.
 */
export function besideWord(own: HTMLElement, word: HTMLElement): () => void {
  function place(): void {
    // A word that is broken into two lines has two.
    const at = word.getClientRects()[0];
    if (!at) return;
    const window = visibleWindow();
    const [above, below] = [at.top - window.top - GAP - MARGIN, window.bottom - at.bottom - GAP - MARGIN];
    const isBelow = below >= own.scrollHeight || below >= above;
    own.style.maxHeight = `${Math.max(isBelow ? below : above, 0)}px`;
    own.style.maxWidth = `min(22rem, ${window.right - window.left - 2 * MARGIN}px)`;
    const { width, height } = own.getBoundingClientRect();
    const isRightToLeft = getComputedStyle(word).direction === "rtl";
    const wanted = isRightToLeft ? at.right - width : at.left;
    own.style.left = `${Math.max(window.left + MARGIN, Math.min(wanted, window.right - MARGIN - width))}px`;
    own.style.top = `${isBelow ? at.bottom + GAP : at.top - GAP - height}px`;
  }
  const resized = new ResizeObserver(place);
  resized.observe(own);
  addEventListener("scroll", place, { capture: true, passive: true });
  addEventListener("resize", place);
  visualViewport?.addEventListener("resize", place);
  place();
  return () => {
    resized.disconnect();
    removeEventListener("scroll", place, { capture: true });
    removeEventListener("resize", place);
    visualViewport?.removeEventListener("resize", place);
  };
}

/** What is seen of the page: less than the window where a keyboard lies on it. */
function visibleWindow(): { left: number; right: number; top: number; bottom: number } {
  const view = visualViewport;
  const [left, top] = [view?.offsetLeft ?? 0, view?.offsetTop ?? 0];
  const root = document.documentElement;
  return {
    left,
    top,
    right: left + (view?.width ?? root.clientWidth),
    bottom: top + (view?.height ?? root.clientHeight),
  };
}

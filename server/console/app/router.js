import { useEffect, useState } from './html.js';

const root = '/console/';
/** @type {Set<() => void>} */
const watchers = new Set();
/** @type {Place} */
let place = read(false);

/** @param {boolean} moved @returns {Place} */
function read(moved) {
  return { path: location.pathname, params: new URLSearchParams(location.search), moved };
}

/** @param {boolean} moved */
function arrive(moved) {
  place = read(moved);
  for (const watcher of watchers) watcher();
}

/** Keeps the scroll position with the entry of the history that it belongs to. */
function keepScroll() {
  history.replaceState({ ...history.state, scroll: window.scrollY }, '');
}

/** Scrolls as soon as the page is high enough; gives up after two seconds or when the reader scrolls. @param {number} y */
function restoreScroll(y) {
  const until = Date.now() + 2_000;
  let stopped = false;
  addEventListener('wheel', () => (stopped = true), { once: true, passive: true });
  const step = () => {
    if (stopped) return;
    scrollTo(0, y);
    if (Math.abs(window.scrollY - y) > 1 && Date.now() < until) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}

/** Goes to a path of the console. @param {string} href @param {{ replace?: boolean }} [how] */
export function go(href, { replace = false } = {}) {
  if (href === location.pathname + location.search) return;
  const from = location.pathname;
  if (replace) {
    history.replaceState(history.state, '', href);
  } else {
    keepScroll();
    history.pushState(null, '', href);
  }
  const moved = location.pathname !== from;
  arrive(moved);
  if (moved) scrollTo(0, 0);
}

/** Returns the path with some parameters changed; an empty one goes. @param {Record<string, string>} changes */
export function withParams(changes) {
  const params = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) params.set(name, value);
    else params.delete(name);
  }
  const query = params.toString();
  return location.pathname + (query && `?${query}`);
}

/** Links are plain anchors: one listener turns a click on a path of the console into a navigation. @param {MouseEvent} event */
function follow(event) {
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute('download') || link.origin !== location.origin || !link.pathname.startsWith(root)) return;
  event.preventDefault();
  go(link.pathname + link.search);
}

/** Starts to follow links and the history. */
export function startRouter() {
  history.scrollRestoration = 'manual';
  document.addEventListener('click', follow);
  addEventListener('pagehide', keepScroll);
  let timer = 0;
  addEventListener('scroll', () => {
    clearTimeout(timer);
    timer = setTimeout(keepScroll, 150);
  }, { passive: true });
  addEventListener('popstate', (event) => {
    clearTimeout(timer);
    arrive(location.pathname !== place.path);
    restoreScroll(event.state?.scroll ?? 0);
  });
  if (history.state?.scroll) restoreScroll(history.state.scroll);
}

/** Returns the place, again after each navigation. @returns {Place} */
export function usePlace() {
  const [, redraw] = useState(place);
  useEffect(() => {
    const watcher = () => redraw(place);
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  }, []);
  return place;
}

import { call } from './api.js';
import { useEffect, useState } from './html.js';

const shortestPoll = 2_000;
const mostUnwatched = 100;
/** @type {Map<string, Known>} */
const entries = new Map();

/** @param {string} path @returns {Known} */
function entryOf(path) {
  let entry = entries.get(path);
  if (!entry) {
    entry = { loading: false, retryAt: 0, timer: 0, watchers: new Set() };
    entries.set(path, entry);
    for (const [old, { watchers }] of entries) {
      if (entries.size <= mostUnwatched) break;
      if (watchers.size === 0 && old !== path) entries.delete(old);
    }
  }
  return entry;
}

/**
 * Reads a path, after the request that it may have in flight. A response to an entry that was forgotten meanwhile is dropped.
 * @param {string} path @param {boolean} [changed]
 */
async function load(path, changed = false) {
  const entry = entryOf(path);
  entry.again ||= entry.loading && changed;
  if (entry.loading) return;
  clearTimeout(entry.timer);
  Object.assign(entry, { loading: true, retryAt: 0 });
  show(entry);
  let wait = 0;
  try {
    const data = await call('GET', path);
    if (entries.get(path) !== entry) return;
    Object.assign(entry, { data, error: undefined });
    wait = Math.max(0, ...[...entry.watchers].map((w) => w.every?.(entry.data) ?? 0));
  } catch (error) {
    if (entries.get(path) !== entry) return;
    entry.error = /** @type {APIError} */ (error);
    entry.retryAt = entry.error.retryAt;
    wait = entry.retryAt && entry.retryAt - Date.now();
  }
  entry.loading = false;
  if (entry.again) {
    entry.again = false;
    return void load(path);
  }
  if (wait && entry.watchers.size) entry.timer = setTimeout(() => load(path), Math.max(entry.retryAt ? 0 : shortestPoll, wait));
  show(entry);
}

/** @param {Known} entry */
function show(entry) {
  for (const { redraw } of entry.watchers) redraw();
}

/** Reads again the paths that begin so; those that no page shows are forgotten. @param {string[]} beginnings */
export function refresh(...beginnings) {
  for (const [path, entry] of entries) {
    if (!beginnings.some((beginning) => path.startsWith(beginning))) continue;
    if (entry.watchers.size) load(path, true);
    else entries.delete(path);
  }
}

/** Forgets the paths that begin so, as those of a thing that was deleted; a page that still shows one reads it no more. @param {string} beginning */
export function forget(beginning) {
  for (const [path, entry] of entries) {
    if (!path.startsWith(beginning)) continue;
    clearTimeout(entry.timer);
    entries.delete(path);
  }
}

/** Forgets all data, and reads the shown paths again. @param {Session} session the new one, of another account */
export function startOver(session) {
  const former = [...entries];
  entries.clear();
  entryOf('session').data = session;
  for (const [path, { timer, watchers }] of former) {
    clearTimeout(timer);
    if (watchers.size === 0) continue;
    entryOf(path).watchers = watchers;
    load(path);
  }
}

/**
 * Reads paths: earlier data are there at once, and each is read again when the component begins to show it.
 * @param {string[]} paths
 * @param {{ every?: (data: any) => number, keep?: boolean }} [how] every: milliseconds to the next reading, 0 for none;
 *   keep: data that are there are not read again
 */
export function useQueries(paths, { every, keep = false } = {}) {
  const [, redraw] = useState(0);
  const all = paths.join(' ');
  useEffect(() => {
    const watcher = { redraw: () => redraw((n) => n + 1), every };
    for (const path of paths) {
      const entry = entryOf(path);
      entry.watchers.add(watcher);
      if (!(keep && entry.data)) load(path);
    }
    return () => {
      for (const path of paths) {
        const entry = entryOf(path);
        entry.watchers.delete(watcher);
        if (entry.watchers.size === 0) clearTimeout(entry.timer);
      }
    };
  }, [all]);
  return paths.map((path) => {
    const { data, error, loading, retryAt } = entries.get(path) ?? { loading: true, retryAt: 0 };
    return { data, error, loading, retryAt, reload: () => void load(path) };
  });
}

/** Reads one path, or none. @param {string | null} path @param {Parameters<typeof useQueries>[1]} [how] @returns {Query} */
export function useQuery(path, how) {
  const [query] = useQueries(path === null ? [] : [path], how);
  return query ?? { data: undefined, error: undefined, loading: false, retryAt: 0, reload: () => {} };
}

/**
 * Reads a list and, page by page, its older rows.
 * @param {string} path with its parameters
 * @param {string} field the rows in the response
 * @param {(page: any) => string} cursor of a page's end
 * @param {(page: any) => number} [every] as of useQueries, for the newest page
 */
export function usePages(path, field, cursor, every) {
  const first = useQuery(path, { every });
  const [befores, setBefores] = useState(/** @type {{ of: string, list: string[] }} */ ({ of: path, list: [] }));
  const list = befores.of === path ? befores.list : [];
  const older = useQueries(list.map((before) => `${path}&before=${encodeURIComponent(before)}`), { keep: true });
  const pages = [first, ...older];
  const last = pages[pages.length - 1];
  const more = () => setBefores({ of: path, list: [...list, cursor(last.data)] });
  return {
    first,
    rows: first.data && pages.flatMap((page) => page.data?.[field] ?? []),
    more: last.data?.has_more ? more : undefined,
    error: older.find((page) => page.error),
  };
}

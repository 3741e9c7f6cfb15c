import { dayOf, oneDay, t } from './kit.js';

/** The longest range that the API counts at once, for all keys; and for one. */
const longest = 31;
export const longestOfKey = 366;
export const longestOfAll = 93;

/** @param {string | null} day */
const valid = (day) => (day && /^\d{4}-\d\d-\d\d$/.test(day) && !Number.isNaN(Date.parse(day)) ? day : null);

/** Returns the range of an address; without one, the last 30 days. @param {URLSearchParams} params */
export function rangeOf(params) {
  const today = dayOf(Date.now());
  const to = valid(params.get('to')) ?? today;
  const from = valid(params.get('from')) ?? dayOf(Date.parse(to) - 29 * oneDay);
  return from <= to ? { from, to } : { from: to, to: from };
}

/** Returns the days of a range. @param {string} from @param {string} to */
export function daysOf(from, to) {
  const days = [];
  for (let at = Date.parse(from); at <= Date.parse(to); at += oneDay) days.push(dayOf(at));
  return days;
}

/** Returns the paths whose responses together are the range. @param {string} from @param {string} to @param {string} key */
export function pathsOf(from, to, key) {
  if (key) return [`usage?from=${from}&to=${to}&key_prefix=${key}`];
  const days = daysOf(from, to);
  const paths = [];
  for (let i = 0; i < days.length; i += longest) paths.push(`usage?from=${days[i]}&to=${days[Math.min(i + longest, days.length) - 1]}`);
  return paths;
}

/** Adds up the counts: the three largest keys are parts of their own, the largest first. @param {UsageOfDay[]} counts @param {string[]} days @param {Key[]} keys */
export function summarize(counts, days, keys) {
  /** @type {Map<string, Part>} */
  const byKey = new Map();
  for (const { key_prefix: prefix, requests, rate_limited: limited } of counts) {
    const part = byKey.get(prefix) ?? { prefix, name: keys.find((k) => k.key_prefix === prefix)?.name ?? prefix, allowed: 0, limited: 0 };
    part.allowed += requests;
    part.limited += limited;
    byKey.set(prefix, part);
  }
  const parts = [...byKey.values()].sort((a, b) => b.allowed - a.allowed);
  const others = parts.splice(3);
  if (others.length) parts.push(others.reduce((sum, p) => ({ ...sum, allowed: sum.allowed + p.allowed, limited: sum.limited + p.limited }), { prefix: '', name: t.otherKeys, allowed: 0, limited: 0 }));
  const place = new Map(parts.map((p, i) => [p.prefix, i]));
  const table = new Map(days.map((day) => [day, { day, allowed: parts.map(() => 0), total: 0, limited: 0 }]));
  for (const { day, key_prefix: prefix, requests, rate_limited: limited } of counts) {
    const row = table.get(day);
    if (!row) continue;
    row.allowed[place.get(prefix) ?? parts.length - 1] += requests;
    row.total += requests;
    row.limited += limited;
  }
  return { parts, days: [...table.values()] };
}

/** A field of a CSV row; a text that a spreadsheet would run as a formula gets an apostrophe. @param {string | number} value */
const field = (value) => {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : `${value}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** Returns the counts as CSV: a row for each day and key. @param {UsageOfDay[]} counts @param {Key[]} keys */
export const csvOf = (counts, keys) => [t.csvHead, ...counts.map((c) => [c.day, c.key_prefix, keys.find((k) => k.key_prefix === c.key_prefix)?.name ?? '', c.requests, c.rate_limited, c.billable_requests])]
  .map((row) => row.map(field).join(',')).join('\r\n') + '\r\n';

import { html, useEffect, useState } from './html.js';
import { t } from './texts.js';
import { many, plain } from './words.js';

const minute = 60_000;
const hour = 60 * minute;
export const oneDay = 24 * hour;

/** @param {number} n */
const two = (n) => `${n}`.padStart(2, '0');

/** Returns the time, again after each period. @param {number} period milliseconds */
export function useNow(period) {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), period);
    return () => clearInterval(timer);
  }, [period]);
  return now;
}

/** @param {Date} d */
const clock = (d) => `${two(d.getHours())}:${two(d.getMinutes())}`;
/** @param {Date} d */
const clockSeconds = (d) => `${clock(d)}:${two(d.getSeconds())}`;
/** @param {Date} d @param {boolean} year */
const date = (d, year) => `${d.getDate()} ${t.months[d.getMonth()]}${year ? ` ${d.getFullYear()}` : ''}`;
/** @param {Date} d @param {number} now */
const isToday = (d, now) => d.toDateString() === new Date(now).toDateString();
/** @param {Date} d @param {number} now */
const otherYear = (d, now) => d.getFullYear() !== new Date(now).getFullYear();

/** @type {Record<string, (d: Date, now: number) => string>} */
const forms = {
  ago: (d, now) => {
    const age = now - d.getTime();
    if (age < minute) return t.justNow;
    if (age < hour) return plain(t.minutesAgo, { n: Math.floor(age / minute) });
    if (age < oneDay) return plain(t.hoursAgo, { n: Math.floor(age / hour) });
    return date(d, otherYear(d, now));
  },
  date: (d, now) => (isToday(d, now) ? plain(t.todayAt, { clock: clock(d) }) : date(d, true)),
  day: (d, now) => (isToday(d, now) ? t.today : date(d, otherYear(d, now))),
  moment: (d, now) => plain(isToday(d, now) ? t.todayAt : t.dateAt, { clock: clock(d), date: date(d, otherYear(d, now)) }),
  since: (d, now) => (isToday(d, now) ? plain(t.sinceToday, { clock: clock(d) }) : forms.moment(d, now)),
  clock: (d, now) => (isToday(d, now) ? clockSeconds(d) : `${date(d, otherYear(d, now))}, ${clock(d)}`),
  full: (d) => `${date(d, true)}, ${clockSeconds(d)}`,
};

/** A time in the reader's zone, with UTC on hover. @param {{ at: string, as?: string }} props */
export function Time({ at, as = 'ago' }) {
  const now = useNow(15_000);
  return html`<time datetime=${at} title=${plain(t.utc, { time: at.replace('T', ' ').replace(/(\.\d+)?Z$/, '') })}>
    ${forms[as](new Date(at), now)}</time>`;
}

/** Says how long a time is, in its largest unit. @param {number} ms */
export function span(ms) {
  if (ms < minute) return many(t.seconds, Math.max(1, Math.round(ms / 1000)));
  if (ms < hour) return many(t.minutes, Math.round(ms / minute));
  return ms < 2 * oneDay ? many(t.hours, Math.round(ms / hour)) : many(t.days, Math.round(ms / oneDay));
}

/** The time until a moment as hours, minutes and seconds; it counts down. @param {{ until: string }} props */
export function Countdown({ until }) {
  const left = Math.max(0, Math.ceil((Date.parse(until) - useNow(1000)) / 1000));
  return html`<time datetime=${until} class="figures">
    ${two(Math.floor(left / 3600))}:${two(Math.floor(left / 60) % 60)}:${two(left % 60)}</time>`;
}

/** A UTC day as the API writes it. @param {number} ms */
export const dayOf = (ms) => new Date(ms).toISOString().slice(0, 10);

/** A UTC day for people. @param {string} day @param {{ weekday?: boolean, year?: boolean }} [how] */
export function dayName(day, { weekday = false, year = false } = {}) {
  const d = new Date(`${day}T00:00:00Z`);
  const name = `${d.getUTCDate()} ${t.months[d.getUTCMonth()]}${year ? ` ${d.getUTCFullYear()}` : ''}`;
  return weekday ? `${t.weekdays[d.getUTCDay()]} ${name}` : name;
}

/** The value of a datetime-local field for a moment. @param {string} at */
export function toField(at) {
  const d = new Date(at);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${clock(d)}`;
}

/** The moment in a datetime-local field, as the API writes it; empty if there is none. @param {string} value */
export function fromField(value) {
  const ms = value ? new Date(value).getTime() : NaN;
  return Number.isNaN(ms) ? '' : new Date(ms).toISOString();
}

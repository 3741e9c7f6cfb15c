import { ErrorPanel, PageHead, Skeleton, Table, dayName, dayOf, figure, go, html, many, oneDay, plain, say, t, usePlace, useQueries, useQuery, withParams } from './kit.js';
import { csvOf, daysOf, longestOfAll, longestOfKey, pathsOf, rangeOf, summarize } from './usage-data.js';
import { UsageLegend, UsagePlot } from './usage-plot.js';

/** Hands a file to the browser. @param {string} name @param {string} text */
function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv;charset=utf-8' }));
  Object.assign(document.createElement('a'), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** @param {{ from: string, to: string, keyPrefix: string, keys: Key[] }} props */
function Filters({ from, to, keyPrefix, keys }) {
  const today = dayOf(Date.now());
  const count = daysOf(from, to).length;
  const set = (/** @type {Record<string, string>} */ changes) => go(withParams(changes));
  return html`<div class="filters"><div class="segments" role="group" aria-label=${t.range}>${[7, 30, 90].map((n) => html`<button type="button" key=${n}
      aria-pressed=${to === today && count === n} onClick=${() => set({ from: dayOf(Date.now() - (n - 1) * oneDay), to: today })}>${many(t.days, n)}</button>`)}</div>
    <div class="span"><input type="date" aria-label=${t.from} value=${from} max=${to} onChange=${(/** @type {any} */ e) => e.target.value && set({ from: e.target.value, to })} />
      <span class="quiet">${t.to}</span><input type="date" aria-label=${t.to} value=${to} min=${from} max=${today} onChange=${(/** @type {any} */ e) => e.target.value && set({ from, to: e.target.value })} /></div>
    <select aria-label=${t.key} value=${keyPrefix} onChange=${(/** @type {any} */ e) => set({ key_prefix: e.target.value })}><option value="">${t.allKeys}</option>
      ${keys.map((k) => html`<option key=${k.key_prefix} value=${k.key_prefix}>${plain(t.keyOption, { name: k.name, prefix: k.key_prefix })}</option>`)}</select></div>`;
}

/** @param {Part[]} parts @returns {Column[]} */
const columnsOf = (parts) => [
  { head: t.day, width: 180, cell: (day) => html`<${DayName} day=${day.day} />` },
  ...parts.map((p, i) => ({ head: p.name, look: 'number quiet', cell: (/** @type {Day} */ day) => figure(day.allowed[i]) })),
  { head: t.allowed, width: 120, look: 'number sum', cell: (day) => figure(day.total) },
  { head: t.limited, width: 104, look: 'number', cell: (day) => html`<span class=${day.limited ? '' : 'quiet'}>${figure(day.limited)}</span>` },
];

/** @param {{ day: string }} props */
const DayName = ({ day }) => html`<time datetime=${day}>${dayName(day, { weekday: true })}</time>${day === dayOf(Date.now()) && html`<span class="quiet normal">${t.soFar}</span>`}`;

/** @param {{ parts: Part[], days: Day[] }} props */
function Usage({ parts, days }) {
  const item = (/** @type {Day} */ day) => html`<div class="top"><strong><${DayName} day=${day.day} /></strong><span>${say(t.nAllowed, { n: day.total })}</span></div>
    <p class="small quiet">${parts.map((p, i) => html`<bdi>${p.name}</bdi> ${figure(day.allowed[i])}, `)}${say(t.nLimited, { n: day.limited })}</p>`;
  return html`<section class="usage" aria-label=${t.requestsADay}><div class="grow"><${UsagePlot} days=${days} /></div>
      <div class="aside"><${UsageLegend} parts=${parts} title=${many(t.daysByKey, days.length)} /></div></section>
    <section class="section" aria-label=${t.byDay}><div class="plot-head"><h2>${t.byDay}</h2><p class="small quiet">${t.daysInUTC}</p></div>
      <${Table} label=${t.byDay} look="days" columns=${columnsOf(parts)} groups=${[...days].reverse().map((day) => ({ rows: [day] }))} keyOf=${(/** @type {Day} */ d) => d.day} item=${item} /></section>`;
}

/** Answers how much each key was used, and how much was refused. */
export function UsagePage() {
  const { params } = usePlace();
  const { from, to } = rangeOf(params);
  const keyPrefix = /^service_[0-9a-f]{8}$/.exec(params.get('key_prefix') ?? '')?.[0] ?? '';
  const days = daysOf(from, to);
  const tooLong = days.length > (keyPrefix ? longestOfKey : longestOfAll);
  const queries = useQueries(tooLong ? [] : pathsOf(from, to, keyPrefix));
  /** @type {Key[]} */
  const keys = useQuery('keys?limit=100', { keep: true }).data?.keys ?? [];
  /** @type {UsageOfDay[]} */
  const counts = queries.flatMap((q) => q.data?.usage ?? []);
  const failed = queries.find((q) => q.error);
  const ready = !tooLong && queries.every((q) => q.data);
  return html`<${PageHead} title=${t.usage}>
      <button type="button" class="primary" aria-disabled=${!ready} onClick=${() => ready && download(`usage-${from}-${to}.csv`, csvOf(counts, keys))}>${t.downloadCSV}</button><//>
    <${Filters} from=${from} to=${to} keyPrefix=${keyPrefix} keys=${keys} />
    ${tooLong && html`<p role="status">${plain(keyPrefix ? t.rangeOfKey : t.rangeOfAll, { n: keyPrefix ? longestOfKey : longestOfAll })}</p>`}
    ${failed && html`<${ErrorPanel} title=${t.usageFailed} query=${failed} />`}
    ${ready ? html`<${Usage} ...${summarize(counts, days, keys)} />` : !failed && !tooLong && html`<${Skeleton} label=${t.loadingUsage} look="days" rows=${8} columns=${columnsOf([])} />`}`;
}

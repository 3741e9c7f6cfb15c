import { dayName, dayOf, figure, html, plain, say, t, useState } from './kit.js';
import { useWidth } from './sparkline.js';

const top = 8;
const plot = 264;
const left = 48;
const height = top + plot + 28;

/** Returns a round number at or above a quarter of the maximum, so that four steps hold it. @param {number} most */
function stepOf(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most / 4)));
  return Math.max(1, power * (/** @type {number} */ ([1, 2, 2.5, 5, 10].find((n) => n * power * 4 >= most && n * power >= 1))));
}

/** @param {{ day: Day, x: number, width: number, y: (n: number) => number }} props */
function Bar({ day, x, width, y }) {
  let from = 0;
  const parts = day.allowed.map((n, i) => {
    const [low, high] = [y(from), y(from + n)];
    from += n;
    return n > 0 && html`<rect class=${`part-${i}`} x=${x + 0.5} y=${high + 0.5} width=${Math.max(1, width - 1)} height=${Math.max(0.5, low - high - 2)} />`;
  });
  const high = y(from + day.limited);
  return html`${parts}${day.limited > 0 && html`<rect class="limited" fill="url(#hatch)" x=${x + 0.5} y=${high + 0.5} width=${Math.max(1, width - 1)} height=${Math.max(1, y(from) - high - 2)} />`}`;
}

/** Says a day's numbers. @param {Day} day */
const readout = (day) => plain(t.dayReadout, { day: dayName(day.day, { weekday: true }), allowed: day.total, limited: day.limited });

/** Requests a day as bars, stacked by key. Arrow keys and the pointer choose the day that the line above reads out. @param {{ days: Day[] }} props */
export function UsagePlot({ days }) {
  const [ref, width] = useWidth();
  const [chosen, setChosen] = useState(/** @type {number | null} */ (null));
  const step = Math.max(1, width - left) / days.length;
  const most = Math.max(4, ...days.map((d) => d.total + d.limited));
  const tick = stepOf(most);
  const y = (/** @type {number} */ n) => top + plot - (plot * n) / (4 * tick);
  const x = (/** @type {number} */ i) => left + i * step;
  const at = Math.min(chosen ?? days.length - 1, days.length - 1);
  const choose = (/** @type {number} */ i) => setChosen(Math.max(0, Math.min(days.length - 1, i)));
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const back = document.dir === 'rtl' ? 'ArrowRight' : 'ArrowLeft';
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 1, ArrowDown: -1, PageUp: 7, PageDown: -7, Home: -days.length, End: days.length };
    const by = moves[/** @type {keyof typeof moves} */ (event.key)];
    if (!by) return;
    event.preventDefault();
    choose(at + (back === 'ArrowRight' && event.key.match(/Left|Right/) ? -by : by));
  };
  /** @param {PointerEvent} event */
  const point = (event) => {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    choose(Math.floor((event.clientX - box.left - left) / step));
  };
  const every = Math.ceil(64 / (7 * step));
  const mondays = days.map((d, i) => ({ i, d })).filter(({ d }) => new Date(d.day).getUTCDay() === 1).filter((_, n) => n % every === 0);
  const last = days.length - 1;
  const today = days[last].day === dayOf(Date.now());
  const lines = [0, 1, 2, 3, 4].map((n) => html`<path class="axis" d=${`M${left} ${Math.round(y(n * tick)) + 0.5}H${width}`} /><text x=${left - 8} y=${y(n * tick) + 4} text-anchor="end">${figure(n * tick)}</text>`);
  return html`<div class="plot-head"><h2>${t.requestsADay}</h2><p class="small">${say(t.dayReadout, { day: html`<strong>${dayName(days[at].day, { weekday: true })}</strong>`, allowed: days[at].total, limited: days[at].limited })}</p></div>
    <div class="plot" ref=${ref} tabindex="0" role="slider" aria-label=${t.day} aria-valuemin="1" aria-valuemax=${days.length} aria-valuenow=${at + 1}
      aria-valuetext=${readout(days[at])} onKeyDown=${move} onPointerMove=${point} onPointerDown=${point}>
      <svg width=${width} height=${height} aria-hidden="true">
        <defs><pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch" width="2" height="4" /></pattern></defs>
        <rect class="chosen" x=${x(at)} y=${top} width=${step} height=${plot} />${lines}
        ${days.map((day, i) => html`<${Bar} key=${day.day} day=${day} x=${x(i) + step * 0.16} width=${step * 0.68} y=${y} />`)}
        ${mondays.map(({ i, d }) => x(i) + step / 2 < width - 76 && html`<text x=${Math.max(left + 18, x(i) + step / 2)} y=${height - 8} text-anchor="middle">${dayName(d.day)}</text>`)}
        <text x=${width} y=${height - 8} text-anchor="end">${today ? t.plotToday : dayName(days[last].day)}</text>
      </svg></div>`;
}

/** The legend: each part with its sums, in the order of the stack. @param {{ parts: Part[], title: string }} props */
export const UsageLegend = ({ parts, title }) => html`<table class="legend"><caption><h2>${title}</h2></caption>
  <thead><tr><th scope="col">${t.key}</th><th scope="col" class="number">${t.allowed}</th><th scope="col" class="number">${t.limited}</th></tr></thead>
  <tbody>${parts.map((p, i) => html`<tr key=${p.prefix}><th scope="row"><div><svg width="12" height="12" aria-hidden="true"><rect class=${`part-${i}`} x="0.5" y="0.5" width="11" height="11" /></svg>
    <bdi>${p.name}</bdi>${p.prefix && p.name !== p.prefix && html`<code>${p.prefix}</code>`}</div></th>
    <td class="number">${figure(p.allowed)}</td><td class="number">${figure(p.limited)}</td></tr>`).reverse()}</tbody>
  <tfoot><tr><th scope="row">${t.total}</th><td class="number">${figure(parts.reduce((n, p) => n + p.allowed, 0))}</td><td class="number">${figure(parts.reduce((n, p) => n + p.limited, 0))}</td></tr></tfoot></table>
  <p class="small quiet legend-note"><svg width="12" height="12" aria-hidden="true"><rect class="limited" fill="url(#hatch)" x="0.5" y="0.5" width="11" height="11" /></svg><span>${t.limitedNote}</span></p>`;

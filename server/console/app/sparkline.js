import { useRef } from './html.js';
import { dayName, html, plain, t, useEffect, useState } from './kit.js';

/** Returns a ref and the width of its element, which follows the window. @returns {[{ current: Element | null }, number]} */
export function useWidth() {
  const ref = useRef(/** @type {Element | null} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(/** @type {Element} */ (ref.current));
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

const height = 76;
const top = 20;
const pad = 5;

/** Requests of 30 days as one line from zero; today is dashed, for it has not ended. @param {{ days: RequestsOfDay[] }} props */
export function Sparkline({ days }) {
  const [ref, width] = useWidth();
  const peak = days.reduce((best, day, i) => (day.allowed > days[best].allowed ? i : best), 0);
  const most = Math.max(1, days[peak].allowed);
  const x = (/** @type {number} */ i) => pad + (i * (width - 2 * pad)) / (days.length - 1);
  const y = (/** @type {number} */ i) => height - ((height - top) * days[i].allowed) / most;
  const points = days.map((_, i) => `${x(i).toFixed(1)},${y(i).toFixed(1)}`);
  const label = plain(t.peakOn, { n: days[peak].allowed, day: dayName(days[peak].date) });
  const anchor = x(peak) < 70 ? 'start' : x(peak) > width - 70 ? 'end' : 'middle';
  return html`<figure class="sparkline" ref=${ref}>
    <svg width=${width} height=${height + 1} role="img" aria-label=${plain(t.sparklineText, { peak: label, today: days[days.length - 1].allowed })}>
      <polygon class="area" points=${`${x(0)},${height} ${points.join(' ')} ${x(days.length - 1)},${height}`} />
      <polyline class="line" points=${points.slice(0, -1).join(' ')} /><polyline class="line dashed" points=${points.slice(-2).join(' ')} />
      <path class="axis" d=${`M0 ${height + 0.5}H${width}`} />
      ${days[peak].allowed > 0 && html`<circle class="dot" cx=${x(peak)} cy=${y(peak)} r="3" /><text x=${x(peak)} y="11" text-anchor=${anchor}>${label}</text>`}
    </svg><figcaption class="small quiet"><span>${dayName(days[0].date)}</span><span>${t.todaySoFar}</span></figcaption></figure>`;
}

import { attemptResult } from './failures.js';
import { Badge, CopyButton, Loaded, Time, html, say, span, t, useNow, useQuery, useWide } from './kit.js';

/** The first attempt and five retries. */
const mostAttempts = 6;
const notSent = ['dns', 'tls', 'connection', 'refused_address', 'url'];

/** @param {Try} attempt */
const response = ({ answer, status, failure }) => answer ? html`<code class="answer"><bdi>${answer}</bdi></code>`
  : html`<span class="quiet">${status !== undefined ? t.emptyResponse : failure && notSent.includes(failure) ? t.noResponseNotSent : t.noResponse}</span>`;

/** @param {DeliveryDetail} delivery @param {number} now */
function linesOf(delivery, now) {
  const lines = delivery.tries.map((attempt) => ({
    n: attempt.attempt, at: attempt.began_at, response: response(attempt),
    result: html`<${Badge} shape=${attempt.failure ? 'bad' : 'good'}>${attemptResult(attempt)}<//>`,
  }));
  const { next_attempt_at: next, attempts } = delivery;
  const last = delivery.tries.at(-1);
  if (!next || (last && !last.failure)) return lines; // a success ends the delivery, and its time can be read before that
  const left = Date.parse(next) - now;
  const note = attempts + 1 >= mostAttempts ? html`<span class="quiet">${say(t.theLastOf, { n: mostAttempts })}</span>` : '';
  return [...lines, { n: attempts + 1, at: next, response: note, result: html`<${Badge} shape="waiting">${left > 0 ? say(t.nextAttemptIn, { span: span(left) }) : t.nextAttemptDue}<//>` }];
}

/** @param {{ delivery: DeliveryDetail }} props */
function Attempts({ delivery }) {
  const now = useNow(10_000);
  const lines = linesOf(delivery, now);
  const number = (/** @type {number} */ n) => say(t.nOf, { n, most: Math.max(mostAttempts, n) });
  if (!useWide()) {
    return html`<ol class="attempts">${lines.map(({ n, at, result, response: text }) => html`<li key=${n}><span>${number(n)}</span><div>${result}<div class="small">${text}</div></div>
      <span class="small quiet"><${Time} at=${at} as="clock" /></span></li>`)}</ol>`;
  }
  return html`<table class="attempts"><thead><tr>${[t.attempt, t.sent, t.result, t.firstBytes].map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
    <tbody>${lines.map(({ n, at, result, response: text }) => html`<tr key=${n}><th scope="row">${number(n)}</th><td><${Time} at=${at} as="clock" /></td><td>${result}</td><td>${text}</td></tr>`)}</tbody></table>`;
}

/** The opened row of a delivery: its attempts, read again while one is due. @param {{ endpoint: string, id: string }} props */
export function DeliveryAttempts({ endpoint, id }) {
  const every = (/** @type {DeliveryDetail} */ d) => (d.state === 'pending' && d.next_attempt_at ? Math.min(60_000, Math.max(5_000, Date.parse(d.next_attempt_at) - Date.now())) : 0);
  const query = useQuery(`webhooks/${endpoint}/deliveries/${id}`, { every });
  return html`<div class="opened-row"><${Loaded} query=${query} failed=${t.deliveryFailed} skeleton=${html`<p class="quiet" role="status">${t.loadingDelivery}</p>`}>
    ${(/** @type {DeliveryDetail} */ delivery) => html`${linesOf(delivery, 0).length > 0 ? html`<${Attempts} delivery=${delivery} />` : html`<p class="quiet">${t.noAttempts}</p>`}
      <p class="small quiet">${say(t.deliveryIds, { id: html`<code>${id}</code>`, event: html`<code>${delivery.event_id}</code>` })} <${CopyButton} text=${id} label=${t.copyId} /></p>`}<//></div>`;
}

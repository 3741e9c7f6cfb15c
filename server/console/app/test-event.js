import { attemptResult } from './failures.js';
import { Badge, ErrorPanel, Time, html, refresh, say, t, useEffect, useQuery } from './kit.js';

/** @param {DeliveryDetail} delivery */
const isOpen = (delivery) => delivery.state === 'pending' && delivery.tries.length === 0;

/** Watches a test event until its first outcome arrives. @param {{ endpoint: string, id: string, onClose: () => void }} props */
export function TestEvent({ endpoint, id, onClose }) {
  const query = useQuery(`webhooks/${endpoint}/deliveries/${id}`, { every: (data) => (isOpen(data) ? 2_000 : 0) });
  /** @type {DeliveryDetail | undefined} */
  const delivery = query.data;
  const open = !delivery || isOpen(delivery);
  useEffect(() => {
    if (!open) refresh('webhooks', 'overview');
  }, [open]);
  const last = delivery?.tries.at(-1);
  const shape = open ? 'waiting' : delivery?.state === 'delivered' ? 'good' : 'bad';
  return html`<section class="panel row" role="status" aria-label=${t.testEvent}><div class="grow">
      <${Badge} shape=${shape}><strong>${open ? t.testSent : delivery?.state === 'delivered' ? t.testArrived : t.testFailed}</strong><//>
      <p class="quiet">${open ? t.testWaiting : last && attemptResult(last)}
        ${!open && delivery?.next_attempt_at && html`. ${say(t.nextAttemptAt, { at: html`<${Time} at=${delivery.next_attempt_at} as="clock" />` })}`}</p>
      ${last?.answer && html`<pre class="answer"><bdi>${last.answer}</bdi></pre>`}
      ${query.error && html`<${ErrorPanel} title=${t.outcomeFailed} query=${query} />`}</div>
    <button type="button" class="word" onClick=${onClose}>${t.close}</button></section>`;
}

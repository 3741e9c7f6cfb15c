import { ActDialog, Field, Problem, Shape, call, fromField, html, many, oneDay, plain, refresh, t, toField, toast, useAction, useEffect, useState } from './kit.js';

const pause = 400;

/** Says how far the reader's clock is from UTC, and what the moment is there. @param {string} since */
function zoneHint(since) {
  const minutes = -new Date(since).getTimezoneOffset();
  const zone = `${minutes < 0 ? '−' : '+'}${Math.floor(Math.abs(minutes) / 60)}${minutes % 60 ? `:${Math.abs(minutes % 60)}` : ''}`;
  return plain(t.zoneHint, { zone, utc: since.slice(0, 16).replace('T', ' ') });
}

/** Asks since when, shows the number of deliveries, and sends that many. @param {{ endpoint: Webhook, since: string, onClose: () => void }} props */
export function RecoverDialog({ endpoint, since: filtered, onClose }) {
  const start = endpoint.failing_since ?? '';
  const [field, setField] = useState(toField(filtered || start || new Date(Date.now() - oneDay).toISOString()));
  const [found, setFound] = useState(/** @type {{ since: string, deliveries: number, more: boolean } | null} */ (null));
  const since = fromField(field);
  const path = `webhooks/${endpoint.id}/recover`;
  const count = useAction(async () => setFound({ since, ...(await call('POST', path, { since, dry_run: true })) }));
  const sending = useAction(async () => {
    const { deliveries } = await call('POST', path, { since });
    refresh(`webhooks/${endpoint.id}`);
    toast(many(t.areSent, deliveries));
    onClose();
  });
  const known = found && found.since === since ? found : null;
  const waits = Math.max(0, (count.error?.retryAt ?? 0) - Date.now());
  useEffect(() => {
    if (!since || known || count.busy || (count.error && !waits)) return undefined;
    const timer = setTimeout(count.run, waits || pause); // a dry run changes nothing, so it can be repeated
    return () => clearTimeout(timer);
  }, [since, known, count.busy, count.error]);
  const n = known?.deliveries ?? 0;
  return html`<${ActDialog} title=${t.recoverTitle} lead=${t.recoverLead} act=${known ? many(t.sendDeliveries, n) : t.counting} busy=${t.sending} failed=${t.notRecovered}
      action=${sending} disabled=${n === 0} onClose=${onClose}>
    <div class="with-button"><${Field} label=${t.since} name="since" type="datetime-local" value=${field} data-first="true" problem=${since ? undefined : t.chooseTime} action=${sending}
        max=${toField(new Date().toISOString())} hint=${since && zoneHint(since)} onInput=${(/** @type {any} */ e) => setField(e.target.value)} />
      ${start && html`<button type="button" class="secondary" onClick=${() => setField(toField(start))}>${t.startOfFailure}</button>`}</div>
    <div class="count" role="status"><p><strong>${!known ? t.countingDeliveries : known.more ? many(t.firstAreSent, n) : many(t.willBeSent, n)}</strong></p>
      ${endpoint.pending > 0 && html`<p class="quiet">${many(t.waitStill, endpoint.pending)}</p>`}</div>
    <${Problem} action=${count} title=${t.notCounted} />
    ${endpoint.failing_since && html`<p class="warning"><${Shape} shape="bad" /><span>${t.stillFails}</span></p>`}
  <//>`;
}

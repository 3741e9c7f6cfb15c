import { DeliveryAttempts } from './delivery-attempts.js';
import { lastResult } from './failures.js';
import { ActionButton, Badge, ErrorPanel, Loaded, Problem, ShortId, Skeleton, Table, Time, call, canDevelop, fromField, go, html, say, t, toField, useAction, usePages, usePlace, useState, withParams } from './kit.js';
import { RecoverDialog } from './recover-dialog.js';
import { eventKinds } from './webhook-form.js';

/** @type {Record<string, readonly [string, string]>} */
const states = { pending: ['waiting', t.waitingForRetry], delivered: ['good', t.succeeded], failed: ['bad', t.failed], cancelled: ['off', t.cancelled] };

/** @param {{ row: Delivery }} props */
function State({ row }) {
  const [shape, word] = states[row.state] ?? ['off', row.state];
  return html`<${Badge} shape=${shape}>${row.state === 'pending' && row.attempts === 0 ? t.waitingToSend : word}<//>`;
}

/** @param {{ row: Delivery, endpoint: Webhook, opened: boolean, onOpen: () => void }} props */
function Actions({ row, endpoint, opened, onOpen }) {
  const done = say(t.isRedelivered, { id: html`<${ShortId} id=${row.id} />` });
  const again = useAction(() => call('POST', `webhooks/${endpoint.id}/deliveries/${row.id}/redeliver`), { reread: [`webhooks/${endpoint.id}`], done });
  return html`<span class="acts"><button type="button" class="word" aria-expanded=${opened} onClick=${onOpen}>${opened ? t.close : t.open}<span class="sr"> ${row.id}</span></button>
    ${canDevelop() && endpoint.status === 'enabled' && html`<${ActionButton} look="word" action=${again} label=${html`${t.redeliver}<span class="sr"> ${row.id}</span>`} />`}</span>
    <${Problem} action=${again} title=${t.notRedelivered} />`;
}

/** @param {(row: Delivery) => unknown} actions @returns {Column[]} */
const columnsOf = (actions) => [
  { head: t.state, width: 172, bar: 60, look: 'normal', cell: (row) => html`<${State} row=${row} />` },
  { head: t.lastResult, width: 204, cell: lastResult },
  { head: t.event, width: 196, look: 'mono quiet', cell: (row) => row.event },
  { head: t.delivery, width: 116, look: 'quiet', cell: (row) => html`<${ShortId} id=${row.id} />` },
  { head: t.attempts, width: 88, look: 'number', bar: 30, cell: (row) => row.attempts },
  { head: t.created, width: 136, look: 'number', cell: (row) => html`<${Time} at=${row.created_at} as="clock" />` },
  { head: t.actions, look: 'end', cell: actions },
];

/** @param {{ state: string, event: string, since: string, onRecover?: () => void }} props */
function Filters({ state, event, since, onRecover }) {
  const set = (/** @type {Record<string, string>} */ changes) => go(withParams(changes));
  const choices = [['', t.all], ['pending', t.waiting], ['failed', t.failed], ['delivered', t.succeeded], ['cancelled', t.cancelled]];
  return html`<div class="filters"><div class="segments" role="group" aria-label=${t.state}>
      ${choices.map(([value, label]) => html`<button type="button" key=${value} aria-pressed=${state === value} onClick=${() => set({ state: value })}>${label}</button>`)}</div>
    <select aria-label=${t.event} value=${event} onChange=${(/** @type {any} */ e) => set({ event: e.target.value })}><option value="">${t.allEvents}</option>
      ${[...eventKinds, 'webhook.test'].map((kind) => html`<option key=${kind} value=${kind}>${kind}</option>`)}</select>
    <label class="span"><span class="quiet">${t.since}</span><input type="datetime-local" value=${since && toField(since)} onChange=${(/** @type {any} */ e) => set({ since: fromField(e.target.value) })} /></label>
    ${onRecover && html`<button type="button" class="secondary apart" onClick=${onRecover}>${t.recoverSince}</button>`}</div>`;
}

/** Milliseconds until a pending delivery on the page is due, at most a minute; 0 if none is pending. @param {{ deliveries: Delivery[] }} page */
function untilDue({ deliveries }) {
  const due = deliveries.flatMap(({ next_attempt_at: at }) => (at ? [Date.parse(at) - Date.now()] : []));
  return due.length ? Math.min(60_000, Math.max(1, Math.min(...due))) : 0;
}

/** The deliveries of an endpoint, filtered by the address. @param {{ endpoint: Webhook }} props */
export function Deliveries({ endpoint }) {
  const { params } = usePlace();
  const [state, event, since] = ['state', 'event', 'since'].map((name) => params.get(name) ?? '');
  const query = new URLSearchParams({ limit: '50', ...(state && { state }), ...(event && { event }), ...(since && { since }) });
  const { first, rows, more, error } = usePages(`webhooks/${endpoint.id}/deliveries?${query}`, 'deliveries', (page) => page.next_before ?? page.deliveries.at(-1).id, untilDue);
  const [opened, setOpened] = useState('');
  const [recovering, setRecovering] = useState(false);
  const actions = (/** @type {Delivery} */ row) => html`<${Actions} row=${row} endpoint=${endpoint} opened=${opened === row.id} onOpen=${() => setOpened(opened === row.id ? '' : row.id)} />`;
  const columns = columnsOf(actions);
  const item = (/** @type {Delivery} */ row) => html`<div class="top"><strong><${State} row=${row} /></strong><span class="small quiet"><${Time} at=${row.created_at} as="clock" /></span></div>
    <p>${lastResult(row)}</p><p class="small quiet"><code>${row.event}</code>, <${ShortId} id=${row.id} /></p>${actions(row)}`;
  const empty = state || event || since ? html`<p class="quiet">${say(t.noDelivery, { clear: html`<a href=${withParams({ state: '', event: '', since: '' })}>${t.clearFilters}</a>` })}</p>` : html`<p class="quiet">${t.emptyDeliveries}</p>`;
  return html`<${Filters} state=${state} event=${event} since=${since} onRecover=${canDevelop() && endpoint.status === 'enabled' ? () => setRecovering(true) : undefined} />
    <${Loaded} query=${first} failed=${t.deliveriesFailed} skeleton=${html`<${Skeleton} label=${t.loadingDeliveries} columns=${columns} />`}>
      ${() => (rows.length === 0 && !more ? empty : rows.length > 0 && html`<${Table} label=${t.deliveries} columns=${columns} item=${item} keyOf=${(/** @type {Delivery} */ d) => d.id}
        groups=${rows.map((/** @type {Delivery} */ row) => ({ rows: [row] }))} rowLook=${(/** @type {Delivery} */ d) => (d.state === 'cancelled' ? 'over' : '')}
        detail=${(/** @type {Delivery} */ row) => opened === row.id && html`<${DeliveryAttempts} endpoint=${endpoint.id} id=${row.id} />`} />`)}<//>
    ${error && html`<${ErrorPanel} title=${t.deliveriesFailed} query=${error} />`}
    ${more && html`<p><button type="button" class="secondary" onClick=${more}>${t.showOlder}</button></p>`}
    ${recovering && html`<${RecoverDialog} endpoint=${endpoint} since=${since} onClose=${() => setRecovering(false)} />`}`;
}

import { Badge, Loaded, LongUrl, PageHead, Skeleton, Table, Time, canDevelop, figure, go, html, many, say, t, usePlace, useQuery, useState, withParams } from './kit.js';
import { WebhookCreateDialog } from './webhook-create-dialog.js';

/** Whether an endpoint works. @param {{ row: Webhook }} props */
export function Health({ row }) {
  if (row.status === 'disabled') return html`<${Badge} shape="off">${t.disabled}<//>`;
  if (row.failing_since) return html`<${Badge} shape="bad">${say(t.failingSince, { at: html`<${Time} at=${row.failing_since} as="moment" />` })}<//>`;
  return row.last_success_at ? html`<${Badge} shape="good">${t.healthy}<//>` : html`<${Badge} shape="waiting">${t.nothingSentYet}<//>`;
}

/** A backlog; the API counts it up to 1,000. @param {number} n */
export const backlog = (n) => (n >= 1000 ? t.thousandOrMore : figure(n));

/** Milliseconds to the next reading of endpoints of which one fails or has deliveries to send; 0 if there is none. @param {Webhook[]} webhooks */
export const untilSettled = (webhooks) => (webhooks.some((w) => w.pending > 0 || w.failing_since) ? 10_000 : 0);

/** @param {Webhook} row */
const link = (row) => html`<a class="plain" href=${`/console/webhooks/${row.id}`}><${LongUrl} bare url=${row.url} /></a>`;

/** @type {Column[]} */
const columns = [
  { head: t.endpoint, bar: 80, cell: link },
  { head: t.health, width: 216, bar: 50, cell: (row) => html`<${Health} row=${row} />` },
  { head: t.lastStatus, width: 104, look: 'number quiet', bar: 40, cell: (row) => row.last_status ?? t.none },
  { head: t.waiting, width: 104, look: 'number', bar: 30, cell: (row) => backlog(row.pending) },
  { head: t.lastSuccess, width: 152, look: 'end quiet', bar: 60, cell: (row) => (row.last_success_at ? html`<${Time} at=${row.last_success_at} />` : t.never) },
];

/** @param {Webhook} row */
const item = (row) => html`<strong>${link(row)}</strong><${Health} row=${row} />
  <p class="small quiet">${say(t.webhookLine, { status: `${row.last_status ?? t.none}`, waiting: backlog(row.pending),
    success: row.last_success_at ? html`<${Time} at=${row.last_success_at} />` : t.never })}</p>`;

/** Answers which endpoints receive their events. */
export function WebhooksPage() {
  const query = useQuery('webhooks', { every: (data) => untilSettled(data.webhooks) });
  const { params } = usePlace();
  const [open, setOpen] = useState(false);
  const close = () => {
    setOpen(false);
    if (params.has('create')) go(withParams({ create: '' }), { replace: true });
  };
  return html`<${PageHead} title=${t.webhooks}>
      ${canDevelop() && html`<button type="button" class="primary" onClick=${() => setOpen(true)}>${t.addEndpoint}</button>`}<//>
    <${Loaded} query=${query} failed=${t.webhooksFailed} skeleton=${html`<${Skeleton} label=${t.loadingWebhooks} columns=${columns} rows=${3} />`}>
      ${(/** @type {{ webhooks: Webhook[] }} */ { webhooks }) => (webhooks.length === 0 ? html`<p class="quiet">${t.emptyWebhooks}</p>` : html`<p class="quiet">${many(t.endpointCount, webhooks.length)}</p>
        <${Table} label=${t.webhooks} columns=${columns} item=${item} keyOf=${(/** @type {Webhook} */ w) => w.id}
          groups=${webhooks.map((row) => ({ rows: [row] }))} rowLook=${(/** @type {Webhook} */ w) => (w.status === 'disabled' ? 'over' : '')} />`)}<//>
    ${(open || (params.has('create') && canDevelop())) && html`<${WebhookCreateDialog} onClose=${close} />`}`;
}

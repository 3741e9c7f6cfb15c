import { Deliveries } from './deliveries.js';
import { failureWord } from './failures.js';
import { ActionButton, Badge, Loaded, LongUrl, PageHead, Problem, Shape, ShortId, Skeleton, Time, call, canDevelop, html, say, span, t, useAction, useNow, usePlace, useQuery, useState, withParams } from './kit.js';
import { TestEvent } from './test-event.js';
import { VerifySignatures } from './verify-signatures.js';
import { WebhookSettings } from './webhook-settings.js';
import { backlog, untilSettled } from './webhooks-page.js';

/** What stands in the way of a failing endpoint, and what happens next. @param {{ endpoint: Webhook }} props */
function Failing({ endpoint: { url, failing_since: since = '', last_failure: failure, last_status: status, pending, oldest_pending_at: oldest, failed_since: failed, last_success_at: success, disables_at: end } }) {
  const now = useNow(15_000);
  const host = html`<code><bdi>${URL.canParse(url) ? new URL(url).host : url}</bdi></code>`;
  const help = t.help[/** @type {keyof typeof t.help} */ (failure)] ?? t.help.other;
  return html`<section class="failing" aria-label=${t.failing}><div class="grow"><h2 class="bad"><${Shape} shape="bad" />
      <span>${say(t.failingTitle, { since: html`<${Time} at=${since} as="since" />`, span: span(now - Date.parse(since)) })}</span></h2>
      ${failure && html`<p>${say(t.wasLastFailure, { why: html`<strong>${failureWord(failure, status)}</strong>` })}</p>`}
      <p class="quiet">${say(help, { host })} ${pending > 0 && t.retriesContinue}</p></div>
    <dl class="pairs"><div><dt>${t.waitingDeliveries}</dt><dd>${oldest ? say(t.oldest, { n: backlog(pending), at: html`<${Time} at=${oldest} as="moment" />` }) : backlog(pending)}</dd></div>
      <div><dt>${t.failedSinceSuccess}</dt><dd>${backlog(failed)}</dd></div>
      <div><dt>${t.lastSuccess}</dt><dd>${success ? html`<${Time} at=${success} as="moment" />` : t.never}</dd></div>
      ${end && html`<div><dt>${t.disabledIfNone}</dt><dd><${Time} at=${end} as="moment" /></dd></div>`}</dl></section>`;
}

/** @param {{ endpoint: Webhook }} props */
const Status = ({ endpoint }) => {
  if (endpoint.status === 'disabled') {
    return html`<section class="panel padded" aria-label=${t.disabled}><${Badge} shape="off"><strong>${t.disabled}</strong><//>
      <p class="quiet">${endpoint.disabled_reason && html`<bdi>${endpoint.disabled_reason}</bdi> `}${t.disabledLead}</p></section>`;
  }
  return endpoint.failing_since ? html`<${Failing} endpoint=${endpoint} />` : html`<p><${Badge} shape=${endpoint.last_success_at ? 'good' : 'waiting'}>
    ${endpoint.last_success_at ? say(t.healthyLine, { at: html`<${Time} at=${endpoint.last_success_at} />`, n: backlog(endpoint.pending) }) : t.nothingSentYet}<//></p>`;
};

const tabs = /** @type {const} */ ([['', t.deliveries], ['settings', t.settings], ['verify', t.verifySignatures]]);

/** @param {{ endpoint: Webhook }} props */
function Endpoint({ endpoint }) {
  const { params } = usePlace();
  const tab = params.get('tab') ?? '';
  const [, namespace, name] = endpoint.managed_by?.split('/') ?? [];
  return html`${endpoint.description && html`<p class="quiet"><bdi>${endpoint.description}</bdi></p>`}<${Status} endpoint=${endpoint} />
    ${endpoint.managed_by && html`<p class="managed">${say(t.managedBy, { namespace: html`<code><bdi>${namespace}</bdi></code>`, name: html`<code><bdi>${name}</bdi></code>` })}</p>`}
    <nav class="tabs" aria-label=${t.endpoint}>${tabs.map(([id, label]) => html`<a key=${id} href=${withParams({ tab: id })} aria-current=${tab === id ? 'page' : undefined}>${label}</a>`)}</nav>
    ${tab === 'settings' ? html`<${WebhookSettings} key=${endpoint.status} endpoint=${endpoint} />` : tab === 'verify' ? html`<${VerifySignatures} />` : html`<${Deliveries} endpoint=${endpoint} />`}`;
}

/** Answers why deliveries of an endpoint do not arrive, and what helps. @param {{ id: string }} props */
export function WebhookPage({ id }) {
  const query = useQuery(`webhooks/${id}`, { every: (data) => untilSettled([data]) });
  /** @type {Webhook | undefined} */
  const endpoint = query.data;
  const [sent, setSent] = useState('');
  const test = useAction(async () => setSent((await call('POST', `webhooks/${id}/test`)).delivery_id));
  const heading = endpoint ? html`<${LongUrl} bare url=${endpoint.url} />` : t.endpoint;
  return html`<${PageHead} long title=${endpoint?.url.replace(/^https:\/\//i, '') ?? t.endpoint} heading=${heading}
      crumb=${html`<a href="/console/webhooks">${t.webhooks}</a> / ${t.endpoint} <${ShortId} id=${id} />`}>
      ${canDevelop() && html`<${ActionButton} look="primary" action=${test} label=${t.sendTest} disabled=${endpoint?.status !== 'enabled'} />`}<//>
    <${Problem} action=${test} title=${t.testNotSent} />${sent && html`<${TestEvent} key=${sent} endpoint=${id} id=${sent} onClose=${() => setSent('')} />`}
    <${Loaded} query=${query} failed=${t.webhookFailed} skeleton=${html`<${Skeleton} label=${t.loadingWebhook} columns=${[]} rows=${6} />`}>
      ${(/** @type {Webhook} */ data) => html`<${Endpoint} endpoint=${data} />`}<//>`;
}

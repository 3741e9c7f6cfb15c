import { AttentionList } from './attention-list.js';
import { baseURL } from './curl.js';
import { FirstSteps } from './first-steps.js';
import { KeyCreateDialog } from './key-create-dialog.js';
import { Badge, CodeBlock, Loaded, PageHead, canDevelop, figure, html, plain, t, useQuery, useState } from './kit.js';
import { Sparkline } from './sparkline.js';

/** @param {Overview} data */
const total = ({ requests = [] }) => requests.reduce((sum, day) => sum + day.allowed, 0);

/** @param {Overview} data */
const isEmpty = (data) => data.keys.active === 0 && data.requests && total(data) === 0 && data.webhooks.healthy + data.webhooks.failing.length === 0;

/** @param {{ name: unknown, value: unknown }} props */
const Fact = ({ name, value }) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;

/** @param {{ tier: Overview['tier'] }} props */
const Tier = ({ tier }) => html`<div><h2>${t.tier} ${tier && html`<code>${tier.name}</code>`}</h2>
  ${tier ? html`<dl class="pairs"><${Fact} name=${plain(t.requestsPer, { n: tier.period_sec })} value=${figure(tier.requests)} />
    <${Fact} name=${t.burst} value=${figure(tier.burst)} /><${Fact} name=${t.counted} value=${t.perKey} /></dl>` : html`<p class="quiet">${t.tierUnknown}</p>`}</div>`;

/** @param {{ data: Overview }} props */
const Columns = ({ data: { tier, keys, webhooks } }) => html`<section class="columns section" aria-label=${t.numbers}>
  <${Tier} tier=${tier} />
  <div><h2><a href="/console/keys">${t.keys}</a></h2><dl class="pairs">
    <${Fact} name=${html`<${Badge} shape="good">${t.active}<//>`} value=${figure(keys.active)} />
    <${Fact} name=${html`<${Badge} shape="warning">${t.expiresSoon}<//>`} value=${figure(keys.expiring.length)} /></dl></div>
  <div><h2><a href="/console/webhooks">${t.webhooks}</a></h2><dl class="pairs">
    <${Fact} name=${html`<${Badge} shape="good">${t.healthy}<//>`} value=${figure(webhooks.healthy)} />
    <${Fact} name=${html`<${Badge} shape="bad">${t.failing}<//>`} value=${figure(webhooks.failing.length)} />
    <${Fact} name=${html`<${Badge} shape="off">${t.disabled}<//>`} value=${figure(webhooks.disabled.length)} /></dl></div>
</section>`;

/** @param {{ data: Overview, onCreate: () => void }} props */
const EmptyAccount = ({ data, onCreate }) => html`<${FirstSteps} onCreate=${onCreate} />
  <section class="columns section" aria-label=${t.numbers}><${Tier} tier=${data.tier} />
    <div><h2>${t.requests30}</h2><p class="big">0</p></div>
    <div><h2>${t.expecting}</h2><p class="quiet">${t.expectingLead}</p></div></section>`;

/** @param {{ data: Overview }} props */
const Busy = ({ data }) => html`<${AttentionList} data=${data} />
  <section class="section requests" aria-label=${t.requests30}><div><h2>${t.requests30}</h2>${data.requests ? html`<p class="big">${figure(total(data))}</p>` : html`<p class="quiet">${t.tooMuchUsage}</p>`}
    <a href="/console/usage">${t.seeUsage}</a></div>${data.requests && html`<${Sparkline} days=${data.requests} />`}</section>
  <${Columns} data=${data} />
  <section class="section" aria-label=${t.baseURL}><h2>${t.baseURL}</h2><${CodeBlock} code=${baseURL} label=${t.copyURL} /></section>`;

const skeleton = html`<div class="skeleton blocks" aria-busy="true"><p class="quiet" role="status">${t.loadingOverview}</p>
  ${[160, 88, 136].map((height) => html`<span class="bar" style=${{ height: `${height}px` }}></span>`)}</div>`;

/** Answers how the account is doing, and what needs attention. */
export function OverviewPage() {
  const query = useQuery('overview', { every: (/** @type {Overview} */ data) => (data.webhooks.failing.length ? 10_000 : 0) });
  const [creating, setCreating] = useState(false);
  const create = () => setCreating(true);
  return html`<${PageHead} title=${t.overview}>
      ${canDevelop() && html`<button type="button" class="primary" onClick=${create}>${t.createKey}</button>`}<//>
    <${Loaded} query=${query} failed=${t.overviewFailed} skeleton=${skeleton}>
      ${(/** @type {Overview} */ data) => (isEmpty(data) ? html`<${EmptyAccount} data=${data} onCreate=${create} />` : html`<${Busy} data=${data} />`)}<//>
    ${creating && html`<${KeyCreateDialog} onClose=${() => setCreating(false)} />`}`;
}

import { failureWord } from './failures.js';
import { LongUrl, Shape, Time, canDevelop, html, many, say, span, t, useNow } from './kit.js';

/** @param {{ shape: ShapeName, title: unknown, href: string, link: string, children?: unknown }} props */
const Item = ({ shape, title, href, link, children }) => html`<li class="row"><${Shape} shape=${shape} />
  <div class="grow"><strong>${title}</strong>${children}</div><a href=${href}>${link}</a></li>`;

/** Failing and disabled endpoints and keys that expire, each with the page that helps. @param {{ data: Overview }} props */
export function AttentionList({ data: { webhooks, keys } }) {
  const now = useNow(15_000);
  const { failing, disabled } = webhooks;
  if (failing.length + disabled.length + keys.expiring.length === 0) return null;
  return html`<section class="section" aria-label=${t.needsAttention}><h2>${t.needsAttention}</h2><ul class="panel">
    ${failing.map((f) => html`<${Item} key=${f.id} shape="bad" href=${`/console/webhooks/${f.id}?state=failed`} link=${t.seeFailures}
        title=${say(t.endpointFailing, { since: html`<${Time} at=${f.failing_since} as="since" />`, span: span(now - Date.parse(f.failing_since)) })}>
      <p><code><${LongUrl} url=${f.url} /></code></p>
      <p class="quiet">${f.last_failure && say(t.lastFailure, { why: html`<span class="strong">${failureWord(f.last_failure, f.last_status)}</span>` })} ${many(t.areWaiting, f.pending)}</p><//>`)}
    ${disabled.map((d) => html`<${Item} key=${d.id} shape="off" title=${t.endpointDisabled} href=${`/console/webhooks/${d.id}`} link=${t.seeEndpoint}>
      <p><code><${LongUrl} url=${d.url} /></code></p><p class="quiet"><bdi>${d.reason}</bdi></p><//>`)}
    ${keys.expiring.map((k) => html`<${Item} key=${k.key_prefix} shape="warning"
        href=${canDevelop() ? `/console/keys?rotate=${k.key_prefix}` : '/console/keys'} link=${canDevelop() ? t.rotateKey : t.seeKeys}
        title=${say(t.keyExpires, { span: span(Date.parse(k.expires_at) - now), at: html`<${Time} at=${k.expires_at} as="moment" />` })}>
      <p class="quiet">${say(k.last_used_at ? t.keyUsed : t.keyNotUsed, { prefix: html`<code>${k.key_prefix}</code>`, name: k.name, ago: k.last_used_at && html`<${Time} at=${k.last_used_at} />` })}</p><//>`)}
  </ul></section>`;
}

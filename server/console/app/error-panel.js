import { Shape } from './badge.js';
import { CopyButton } from './copy-button.js';
import { html } from './html.js';
import { t } from './texts.js';
import { Time, useNow } from './time.js';
import { say } from './words.js';

/** Why a request failed. @param {{ error: APIError, changed?: unknown }} props */
export function Reason({ error, changed = '' }) {
  if (error.status === 0) return html`<p>${error.code === 'timeout' ? t.apiTimeout : t.apiUnreachable} ${changed}</p>`;
  const code = html`<code>${error.status} ${error.code}</code>`;
  const detail = error.detail.replace(/^[A-Z](?=[a-z ])/, (c) => c.toLowerCase()).replace(/\.$/, '');
  return html`<p>${say(detail ? t.apiReturned : t.apiReturnedCode, { code, detail })} ${changed}</p>`;
}

/** The request id to hand to the operator. @param {{ error: APIError }} props */
export const RequestId = ({ error }) =>
  error.requestId && html`<div><dt>${t.requestId}</dt>
    <dd><code><bdi>${error.requestId}</bdi></code> <${CopyButton} text=${error.requestId} label=${t.copyId} /></dd></div>`;

/** What could not be loaded, why, and when it is tried again. @param {{ title: string, query: Query }} props */
export function ErrorPanel({ title, query }) {
  const error = /** @type {APIError} */ (query.error);
  const left = Math.ceil((query.retryAt - useNow(1000)) / 1000);
  return html`<section class="error" role="alert" aria-label=${title}>
    <h2 class="bad"><${Shape} shape="bad" />${title}</h2>
    <${Reason} error=${error} changed=${t.nothingChanged} />
    ${query.retryAt > 0 && html`<p class="quiet figures" aria-live="off">${left > 0 ? say(t.triesAgain, { n: left }) : t.tryingAgain}</p>`}
    <button type="button" class="secondary" onClick=${query.reload}>${t.tryAgain}</button>
    <dl class="facts"><${RequestId} error=${error} /><div><dt>${t.time}</dt><dd><${Time} at=${error.at} as="full" /></dd></div></dl>
    <p class="small quiet">${t.giveId}</p>
  </section>`;
}

/**
 * A query's data, its skeleton while they are loading, or its error. Earlier data stay under a later error.
 * @param {{ query: Query, failed: string, skeleton: unknown, children: (data: any) => unknown }} props
 */
export const Loaded = ({ query, failed, skeleton, children }) =>
  html`${query.error && html`<${ErrorPanel} title=${failed} query=${query} />`}
    ${query.data ? children(query.data) : !query.error && skeleton}`;

import { curl } from './curl.js';
import { CopyButton, Time, html, say, t, useQuery } from './kit.js';
import { showSecret } from './secret-dialog.js';

/** @param {{ created: NewKey }} props */
function Facts({ created }) {
  /** @type {Overview | undefined} */
  const overview = useQuery('overview', { keep: true }).data;
  const tier = overview?.tier?.name === created.tier ? overview.tier : null;
  return html`<dl class="facts">
    <div><dt>${t.name}</dt><dd><bdi>${created.name}</bdi></dd></div>
    <div><dt>${t.prefix}</dt><dd><code>${created.key_prefix}</code></dd></div>
    <div><dt>${t.tier}</dt><dd>${tier ? say(t.tierLine, { tier: tier.name, n: tier.requests, period: tier.period_sec }) : html`<bdi>${created.tier}</bdi>`}</dd></div>
    <div><dt>${t.expires}</dt><dd>${created.expires_at ? html`<${Time} at=${created.expires_at} as="full" />` : t.never}</dd></div></dl>`;
}

/** Shows a new key this one time, with the command that uses it. @param {NewKey} created @param {string} title @param {unknown} done */
export function showKey(created, title, done) {
  const { key, key_prefix: prefix } = created;
  showSecret({
    title,
    done,
    lead: t.keyShown,
    text: key,
    copy: t.copyKey,
    warning: t.closeUncopiedKey,
    more: html`<${Facts} created=${created} />`,
    usage: (onCopied) => html`<h3>${t.tryIt}</h3><pre class="code">${curl(`${prefix}…`)}</pre>
      <p><${CopyButton} look="secondary" text=${curl(key)} label=${t.copyCommandWithKey} onCopied=${onCopied} /></p>`,
  });
}

import { ActionButton, ConfirmDialog, LongUrl, Problem, Time, call, canDevelop, forget, go, html, refresh, say, t, useAction, useState } from './kit.js';
import { showSigningSecret } from './webhook-create-dialog.js';
import { WebhookForm } from './webhook-form.js';

/** @param {{ endpoint: Webhook }} props */
const ReadOnly = ({ endpoint }) => html`<dl class="facts">
  <div><dt>${t.url}</dt><dd><code><${LongUrl} url=${endpoint.url} /></code></dd></div>
  <div><dt>${t.events}</dt><dd>${endpoint.events.map((e) => html`<code class="line">${e}</code>`)}</dd></div>
  <div><dt>${t.description}</dt><dd><bdi>${endpoint.description || t.none}</bdi></dd></div>
  <div><dt>${t.created}</dt><dd><${Time} at=${endpoint.created_at} as="full" /></dd></div></dl>`;

/** @param {{ endpoint: Webhook }} props */
function Editable({ endpoint }) {
  const { url, events, description } = endpoint;
  const [value, setValue] = useState(/** @type {EndpointFields} */ ({ url, events, description }));
  const save = useAction(() => call('PATCH', `webhooks/${endpoint.id}`, value), { reread: ['webhooks', 'overview'], done: t.changesSaved });
  const same = value.url === url && value.description === description && [...value.events].sort().join() === [...events].sort().join();
  const off = same || !value.url.trim() || value.events.length === 0;
  return html`<form class="settings" novalidate onSubmit=${(/** @type {Event} */ e) => (e.preventDefault(), off || save.run())}>
    <${WebhookForm} value=${value} onChange=${setValue} action=${save} /><${Problem} action=${save} title=${t.notSaved} />
    <p><${ActionButton} type="submit" action=${save} label=${t.saveChanges} busyLabel=${t.saving} disabled=${off} /></p></form>`;
}

/** @param {{ title: string, text: string, button: string, onClick: () => void }} props */
const Act = ({ title, text, button, onClick }) => html`<div class="row"><div class="grow"><strong>${title}</strong><p class="quiet">${text}</p></div>
  <button type="button" class="secondary" onClick=${onClick}>${button}</button></div>`;

/** @param {{ endpoint: Webhook, what: string, onClose: () => void }} props */
function Confirm({ endpoint, what, onClose }) {
  const path = `webhooks/${endpoint.id}`;
  const url = endpoint.url;
  const change = (/** @type {string} */ status) => call('PATCH', path, { status });
  const rotate = async () => showSigningSecret((await call('POST', `${path}/rotate-secret`)).secret, t.secretRotated, t.secretRotatedLead, say(t.isRotated, { url }));
  const remove = async () => {
    await call('DELETE', path);
    forget(path);
    go('/console/webhooks');
  };
  const acts = {
    rotate: { texts: t.rotateSecret, run: rotate },
    disable: { texts: t.disable, danger: true, run: () => change('disabled') },
    enable: { texts: t.enable, run: () => change('enabled') },
    remove: { texts: t.remove, danger: true, run: remove },
  };
  const act = acts[/** @type {keyof typeof acts} */ (what)];
  return html`<${ConfirmDialog} ...${act} values=${{ url }} run=${() => act.run().finally(() => refresh('webhooks', 'overview'))} onClose=${onClose} />`;
}

/** URL, events and description, and the acts on the endpoint. @param {{ endpoint: Webhook }} props */
export function WebhookSettings({ endpoint }) {
  const [what, setWhat] = useState('');
  if (endpoint.managed_by || !canDevelop()) return html`<${ReadOnly} endpoint=${endpoint} />`;
  const toggle = endpoint.status === 'enabled' ? 'disable' : 'enable';
  return html`<${Editable} endpoint=${endpoint} />
    <section class="section" aria-label=${t.more}><h2>${t.more}</h2><div class="panel">
      ${/** @type {const} */ ([['rotate', t.rotateSecret], [toggle, t[toggle]], ['remove', t.remove]]).map(([name, texts]) =>
        html`<${Act} key=${name} title=${texts.title} text=${texts.short} button=${texts.button} onClick=${() => setWhat(name)} />`)}</div></section>
    ${what && html`<${Confirm} endpoint=${endpoint} what=${what} onClose=${() => setWhat('')} />`}`;
}

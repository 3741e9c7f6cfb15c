import { ActDialog, call, go, html, refresh, say, t, useAction, useState } from './kit.js';
import { showSecret } from './secret-dialog.js';
import { WebhookForm, eventKinds } from './webhook-form.js';

/** Shows a signing secret this one time. @param {string} text @param {string} title @param {string} lead @param {unknown} done */
export const showSigningSecret = (text, title, lead, done) => showSecret({ title, lead, text, done, copy: t.copySecret, warning: t.closeUncopiedSecret });

/** Asks for an endpoint and registers it. @param {{ onClose: () => void }} props */
export function WebhookCreateDialog({ onClose }) {
  const [value, setValue] = useState({ url: '', events: /** @type {string[]} */ ([...eventKinds]), description: '' });
  const create = useAction(async () => {
    const created = await call('POST', 'webhooks', value);
    onClose();
    refresh('webhooks', 'overview');
    go(`/console/webhooks/${created.id}`);
    showSigningSecret(created.secret, t.endpointAdded, t.secretShown, say(t.endpointIsAdded, { url: created.url }));
  });
  return html`<${ActDialog} title=${t.addEndpoint} lead=${t.addEndpointLead} act=${t.addEndpoint} busy=${t.adding} failed=${t.endpointNotAdded} action=${create}
      disabled=${!value.url.trim() || value.events.length === 0} onClose=${onClose}>
    <${WebhookForm} first value=${value} onChange=${setValue} action=${create} />
  <//>`;
}

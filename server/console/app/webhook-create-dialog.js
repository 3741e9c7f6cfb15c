import { call } from './api.js';
import { ActDialog } from './dialog.js';
import { useAction } from './form.js';
import { html, useState } from './html.js';
import { refresh } from './query.js';
import { go } from './router.js';
import { showSecret } from './secret-dialog.js';
import { t } from './texts.js';
import { toast } from './toast.js';
import { WebhookForm, eventKinds } from './webhook-form.js';
import { say } from './words.js';

/** Shows a signing secret this one time. @param {string} text @param {string} title @param {string} lead */
export const showSigningSecret = (text, title, lead) => showSecret({ title, lead, text, copy: t.copySecret, warning: t.closeUncopiedSecret });

/** Asks for an endpoint and registers it. @param {{ onClose: () => void }} props */
export function WebhookCreateDialog({ onClose }) {
  const [value, setValue] = useState({ url: '', events: /** @type {string[]} */ ([...eventKinds]), description: '' });
  const create = useAction(async () => {
    const created = await call('POST', 'webhooks', value);
    onClose();
    refresh('webhooks', 'overview');
    go(`/console/webhooks/${created.id}`);
    showSigningSecret(created.secret, t.endpointAdded, t.secretShown);
    toast(say(t.endpointIsAdded, { url: created.url }));
  });
  return html`<${ActDialog} title=${t.addEndpoint} lead=${t.addEndpointLead} act=${t.addEndpoint} busy=${t.adding} failed=${t.endpointNotAdded} action=${create}
      disabled=${!value.url.trim() || value.events.length === 0} onClose=${onClose}>
    <${WebhookForm} first value=${value} onChange=${setValue} action=${create} />
  <//>`;
}

import { showKey } from './key-created-dialog.js';
import { ActDialog, Field, call, fromField, html, oneDay, plain, refresh, say, t, toField, useAction, useQuery, useState } from './kit.js';

/** Asks for a key's name, its end and whose attempts it reads, and creates it. @param {{ onClose: () => void }} props */
export function KeyCreateDialog({ onClose }) {
  const [name, setName] = useState('');
  const [expiry, setExpiry] = useState('');
  const [inherit, setInherit] = useState('');
  /** @type {Key[]} */
  const keys = useQuery('keys?limit=100').data?.keys ?? [];
  const create = useAction(async () => {
    const created = await call('POST', 'keys', { name, expires_at: fromField(expiry) || undefined, inherit_from: inherit || undefined });
    onClose();
    showKey(created, t.keyCreated, say(t.keyIsCreated, { prefix: created.key_prefix }));
    refresh('keys', 'overview');
  });
  return html`<${ActDialog} title=${t.createKey} lead=${t.createKeyLead} act=${t.createKey} busy=${t.creating} failed=${t.keyNotCreated}
      action=${create} disabled=${!name.trim()} onClose=${onClose}>
    <${Field} label=${t.name} name="name" hint=${t.nameHint} action=${create} value=${name} maxlength="200" required data-first="true"
      onInput=${(/** @type {any} */ e) => setName(e.target.value)} />
    <${Field} label=${t.expiresOptional} name="expires_at" hint=${t.expiresHint} action=${create} type="datetime-local" value=${expiry}
      min=${toField(new Date(Date.now() + oneDay / 24).toISOString())} onInput=${(/** @type {any} */ e) => setExpiry(e.target.value)} />
    <${Field} label=${t.inheritOptional} name="inherit_from" as="select" hint=${t.inheritHint} action=${create} value=${inherit}
        onChange=${(/** @type {any} */ e) => setInherit(e.target.value)}>
      <option value="">${t.noKey}</option>
      ${keys.map((k) => html`<option key=${k.key_prefix} value=${k.key_prefix}>${plain(t.keyOption, { name: k.name, prefix: k.key_prefix })}</option>`)}<//>
  <//>`;
}

import { ActDialog, Field, Time, call, html, plain, refresh, say, t, toast, useAction, useState } from './kit.js';

/**
 * Ends a key for good, after its prefix was typed. A 503 means that some pods may not know yet.
 * @param {{ of: Key, replaced?: Key, onClose: () => void }} props
 */
export function KeyRevokeDialog({ of: key, replaced, onClose }) {
  const [typed, setTyped] = useState('');
  const prefix = key.key_prefix;
  const revoke = useAction(async () => {
    try {
      await call('DELETE', `keys/${prefix}`);
    } finally {
      refresh('keys', 'overview');
    }
    onClose();
    toast(say(t.isRevoked, { prefix }));
  });
  const unsure = revoke.error?.status === 503;
  return html`<${ActDialog} danger title=${plain(t.revokeTitle, { name: key.name })} lead=${say(t.revokeLead, { prefix: html`<code>${prefix}</code>` })}
      act=${unsure ? t.askAgain : t.revokeKey} busy=${t.waitingForPods} failed=${unsure ? t.notConfirmed : t.keyNotRevoked} action=${revoke}
      disabled=${typed.trim() !== prefix} onClose=${onClose}>
    ${replaced && html`<p>${say(t.stillWorks, { prefix: html`<code>${replaced.key_prefix}</code>`, at: html`<${Time} at=${replaced.expires_at} as="moment" />` })}</p>`}
    <${Field} label=${t.typePrefix} name="prefix" class="mono" value=${typed} spellcheck="false" autocapitalize="off" data-first="true"
      hint=${say(t.typeThis, { prefix: html`<code>${prefix}</code>` })} onInput=${(/** @type {any} */ e) => setTyped(e.target.value)} />
  <//>`;
}

import { showKey } from './key-created-dialog.js';
import { ActDialog, Time, call, html, plain, refresh, say, t, useAction, useState } from './kit.js';

/** Asks how long the old key still works, and replaces it. @param {{ of: Key, onClose: () => void }} props */
export function KeyRotateDialog({ of: key, onClose }) {
  const [overlap, setOverlap] = useState(86_400);
  const rotate = useAction(async () => {
    const created = await call('POST', `keys/${key.key_prefix}/rotate`, { overlap_seconds: overlap });
    onClose();
    const prefix = key.key_prefix;
    showKey(created, t.keyRotated, created.old_key_revoked === false ? say(t.oldNotConfirmed, { prefix }) : say(t.isReplaced, { prefix, by: created.key_prefix }));
    refresh('keys', 'overview');
  });
  return html`<${ActDialog} title=${plain(t.rotateTitle, { name: key.name })} lead=${t.rotateLead} act=${t.rotateKey} busy=${t.rotating}
      failed=${t.keyNotRotated} action=${rotate} onClose=${onClose}>
    <fieldset><legend>${say(t.overlap, { prefix: html`<code>${key.key_prefix}</code>` })}</legend>
      ${t.overlaps.map(([seconds, words]) => html`<label class="radio" key=${seconds}><input type="radio" name="overlap" value=${seconds}
        checked=${seconds === overlap} data-first=${seconds === overlap} onChange=${() => setOverlap(Number(seconds))} />${words}</label>`)}</fieldset>
    ${key.expires_at && html`<p>${say(t.sameExpiry, { at: html`<${Time} at=${key.expires_at} as="moment" />` })}</p>`}
    <p class="quiet">${t.attemptsFollow}</p>
  <//>`;
}

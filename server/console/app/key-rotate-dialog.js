/** @import { Key } from './types.js' */
import { call } from './api.js';
import { ActDialog } from './dialog.js';
import { useAction } from './form.js';
import { html, useState } from './html.js';
import { showKey } from './key-created-dialog.js';
import { refresh } from './query.js';
import { t } from './texts.js';
import { toast } from './toast.js';
import { plain, say } from './words.js';

/** Asks how long the old key still works, and replaces it. @param {{ of: Key, onClose: () => void }} props */
export function KeyRotateDialog({ of: key, onClose }) {
  const [overlap, setOverlap] = useState(86_400);
  const rotate = useAction(async () => {
    const created = await call('POST', `keys/${key.key_prefix}/rotate`, { overlap_seconds: overlap });
    onClose();
    showKey(created, t.keyRotated);
    toast(created.old_key_revoked === false ? say(t.oldNotConfirmed, { prefix: key.key_prefix }) : say(t.isReplaced, { prefix: key.key_prefix, by: created.key_prefix }));
    refresh('keys', 'overview');
  });
  return html`<${ActDialog} title=${plain(t.rotateTitle, { name: key.name })} lead=${t.rotateLead} act=${t.rotateKey} busy=${t.rotating}
      failed=${t.keyNotRotated} action=${rotate} onClose=${onClose}>
    <fieldset><legend>${say(t.overlap, { prefix: html`<code>${key.key_prefix}</code>` })}</legend>
      ${t.overlaps.map(([seconds, words]) => html`<label class="radio" key=${seconds}><input type="radio" name="overlap" value=${seconds}
        checked=${seconds === overlap} data-first=${seconds === overlap} onChange=${() => setOverlap(Number(seconds))} />${words}</label>`)}</fieldset>
    <p class="quiet">${t.attemptsFollow}</p>
  <//>`;
}

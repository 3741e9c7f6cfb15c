import { CopyButton } from './copy-button.js';
import { Dialog } from './dialog.js';
import { html, useEffect, useLayoutEffect, useState } from './html.js';
import { t } from './texts.js';
import { toast } from './toast.js';

/** @type {(secret: Secret) => void} */
let open = () => {};

/** Shows a secret this one time. The dialog belongs to no page, so that going back in the history does not lose it. @param {Secret} secret */
export const showSecret = (secret) => open(secret);

/** The place where secrets appear. */
export function SecretHost() {
  const [secret, setSecret] = useState(/** @type {Secret | null} */ (null));
  useEffect(() => {
    open = setSecret;
  }, []);
  return secret && html`<${SecretDialog} ...${secret} onClose=${() => (setSecret(null), toast(secret.done))} />`;
}

/** @param {Secret & { onClose: () => void }} props */
function SecretDialog({ title, lead, text, copy, warning, more, usage, onClose }) {
  const [copied, setCopied] = useState(false);
  const [asking, setAsking] = useState(false);
  const done = () => {
    setCopied(true);
    setAsking(false);
  };
  // Preact ends a plain effect only after the next paint: a page that is left right after Close would still be held.
  useLayoutEffect(() => {
    if (copied) return undefined;
    /** @param {BeforeUnloadEvent} event */
    const guard = (event) => event.preventDefault();
    addEventListener('beforeunload', guard);
    return () => removeEventListener('beforeunload', guard);
  }, [copied]);
  const close = () => (copied ? onClose() : setAsking(true));
  const foot = asking
    ? html`<span role="alert">${warning}</span>
      <span class="pair"><button type="button" class="secondary" ref=${focusOnce} onClick=${() => setAsking(false)}>${t.keepOpen}</button>
      <button type="button" class="danger" onClick=${onClose}>${t.close}</button></span>`
    : html`<span class="small quiet">${copied ? '' : t.closingAsks}</span><button type="button" class="secondary" onClick=${close}>${t.close}</button>`;
  return html`<${Dialog} wide title=${title} lead=${lead} foot=${foot} onClose=${close}>
    <pre class="code" onCopy=${() => getSelection()?.toString().includes(text) && done()}><bdi>${text}</bdi></pre>
    <p class="copying"><${CopyButton} look="primary" first text=${text} label=${copy} onCopied=${done} />
      <span class="small quiet">${copied ? t.copied : t.notCopiedYet}</span></p>
    ${more}${usage?.(done)}
  <//>`;
}

/** @param {HTMLElement | null} element */
const focusOnce = (element) => element?.focus();

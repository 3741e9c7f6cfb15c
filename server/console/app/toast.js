import { html, useEffect, useState } from './html.js';
import { t } from './texts.js';

const stays = 6_000;
/** @type {{ id: number, text: unknown } | null} */
let current = null;
/** @type {(() => void) | null} */
let changed = null;

/** Shows a finished action. @param {unknown} text */
export function toast(text) {
  current = { id: (current?.id ?? 0) + 1, text };
  changed?.();
}

/** The place where finished actions appear; it is always in the document, so that screen readers announce changes. */
export function Toasts() {
  const [shown, setShown] = useState(current);
  const [held, setHeld] = useState(false);
  useEffect(() => {
    changed = () => setShown(current);
  }, []);
  useEffect(() => {
    if (!shown || held) return undefined;
    const timer = setTimeout(() => setShown(null), stays);
    return () => clearTimeout(timer);
  }, [shown, held]);
  const dismiss = () => {
    setHeld(false);
    setShown(null);
  };
  return html`<div class="toasts" role="status">
    ${shown && html`<div class="toast" key=${shown.id} onMouseEnter=${() => setHeld(true)} onMouseLeave=${() => setHeld(false)}
      onFocusIn=${() => setHeld(true)} onFocusOut=${() => setHeld(false)}>
      <span>${shown.text}</span><button type="button" class="word" onClick=${dismiss}>${t.dismiss}</button>
    </div>`}
  </div>`;
}

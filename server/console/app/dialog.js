import { html, useEffect, useId, useRef } from './html.js';
import { ActionButton, Problem, useAction } from './form.js';
import { t } from './texts.js';
import { plain, say } from './words.js';

/**
 * A modal dialog; below 800 px it is a sheet from below. Focus starts on the element with data-first, else on the title,
 * and goes back to the opener.
 * @param {{ title: unknown, lead?: unknown, wide?: boolean, foot: unknown, onClose: () => void, onSubmit?: () => void, children?: unknown }} props
 */
export function Dialog({ title, lead, wide, foot, onClose, onSubmit, children }) {
  const id = useId();
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const opener = document.activeElement;
    const dialog = /** @type {HTMLDialogElement} */ (ref.current);
    dialog.showModal();
    const first = dialog.querySelector('[data-first="true"]') ?? dialog.querySelector('h2');
    if (first instanceof HTMLElement) first.focus();
    return () => {
      dialog.close();
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
      else document.querySelector('h1')?.focus({ preventScroll: true });
    };
  }, []);
  /** @param {Event} event */
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    onSubmit?.();
  };
  return html`<dialog ref=${ref} class=${wide ? 'wide' : ''} aria-labelledby=${id} onCancel=${cancel}>
    <form method="dialog" novalidate onSubmit=${submit}>
      <div class="body"><h2 id=${id} tabindex="-1">${title}</h2>${lead && html`<p class="quiet">${lead}</p>`}${children}</div>
      <div class="foot">${foot}</div>
    </form>
  </dialog>`;
}

/**
 * A dialog that asks for one act: "Cancel" is left of it, and its failure stands above.
 * @param {{ title: unknown, lead?: unknown, act: string, busy?: string, failed: string, action: Action,
 *   disabled?: boolean, danger?: boolean, onClose: () => void, children?: unknown }} props
 */
export function ActDialog({ title, lead, act, busy, failed, action, disabled, danger, onClose, children }) {
  const off = disabled || action.busy;
  const foot = html`<button type="button" class="secondary" data-first=${danger && !children} onClick=${onClose}>${t.cancel}</button>
    <${ActionButton} type="submit" look=${danger ? 'danger' : 'primary'} action=${action} label=${act} busyLabel=${busy} disabled=${disabled} />`;
  return html`<${Dialog} title=${title} lead=${lead} foot=${foot} onClose=${onClose} onSubmit=${() => off || action.run()}>
    ${children}<${Problem} action=${action} title=${failed} />
  <//>`;
}

/**
 * A dialog that confirms one act without further choices. Afterwards a toast says that it is done.
 * @param {{ texts: { title: string, lead: string, button: string, failed: string, done?: string }, values?: Record<string, string>,
 *   danger?: boolean, run: () => Promise<unknown>, onClose: () => void }} props
 */
export function ConfirmDialog({ texts, values = {}, danger, run, onClose }) {
  const action = useAction(run, { then: onClose, done: texts.done && say(texts.done, values) });
  return html`<${ActDialog} danger=${danger} title=${plain(texts.title, values)} lead=${say(texts.lead, values)} act=${texts.button}
    failed=${texts.failed} action=${action} onClose=${onClose} />`;
}

import { APIError } from './api.js';
import { Reason, RequestId } from './error-panel.js';
import { html, useId, useRef, useState } from './html.js';
import { refresh } from './query.js';
import { t } from './texts.js';
import { useNow } from './time.js';
import { toast } from './toast.js';
import { say } from './words.js';

/**
 * An action that runs once at a time, however often it is called, and keeps why it failed. It never repeats itself.
 * @param {(...args: any[]) => Promise<unknown>} act
 * @param {{ reread?: string[], done?: unknown, then?: () => void }} [after] paths to read again, the toast, and what else follows a success
 * @returns {Action}
 */
export function useAction(act, { reread = [], done, then } = {}) {
  const running = useRef(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {APIError | null} */ (null));
  /** @param {any[]} args */
  const run = async (...args) => {
    if (running.current || (error && error.retryAt > Date.now())) return;
    running.current = true;
    setBusy(true);
    setError(null);
    try {
      await act(...args);
      refresh(...reread);
      then?.();
      if (done) toast(done);
    } catch (failure) {
      if (!(failure instanceof APIError)) throw failure;
      setError(failure);
      if (failure.status === 403) refresh('session'); // the role changed since the page was drawn
    } finally {
      running.current = false;
      setBusy(false);
    }
  };
  return { run, busy, error };
}

/**
 * Lets a double click press a button once, and so a key that is held. The page can change between two clicks: a button may have
 * finished its action by the second, or another one may have taken its place.
 */
export function startPressingOnce() {
  /** @param {MouseEvent} event */
  const click = (event) => {
    if (event.detail < 2 || !(event.target instanceof Element && event.target.closest('button'))) return;
    event.preventDefault();
    event.stopPropagation();
  };
  /** @param {KeyboardEvent} event */
  const key = (event) => event.repeat && event.key === 'Enter' && event.preventDefault();
  document.addEventListener('click', click, { capture: true });
  document.addEventListener('keydown', key, { capture: true });
}

/**
 * A button of an action; while that runs or has to wait it does nothing, and keeps its focus.
 * @param {{ action: Action, look?: string, label: unknown, busyLabel?: unknown, disabled?: boolean, type?: string }} props
 */
export function ActionButton({ action, look = 'secondary', label, busyLabel = label, disabled = false, type = 'button' }) {
  const left = Math.ceil(((action.error?.retryAt ?? 0) - useNow(1000)) / 1000);
  const off = disabled || action.busy || left > 0;
  /** @param {Event} event */
  const click = (event) => {
    if (off) event.preventDefault();
    else if (type === 'button') action.run();
  };
  return html`<button type=${type} class=${look} aria-disabled=${off} aria-busy=${action.busy} onClick=${click}>
    ${action.busy ? busyLabel : label}</button>`;
}

/** Why an action failed, with the request id, and how long to wait. @param {{ action: Action, title: string }} props */
export function Problem({ action, title }) {
  const now = useNow(1000);
  const { error } = action;
  if (!error) return null;
  const left = Math.ceil((error.retryAt - now) / 1000);
  return html`<div class="problem" role="alert">
    <strong class="bad">${title}</strong>
    <${Reason} error=${error} />
    ${error.fields.length > 0 && html`<ul>${error.fields.map((f) => html`<li key=${f.field}><code>${f.field}</code> <bdi>${f.detail}</bdi></li>`)}</ul>`}
    ${left > 0 && html`<p class="figures" aria-live="off">${say(t.possibleIn, { n: left })}</p>`}
    <dl class="facts"><${RequestId} error=${error} /></dl>
  </div>`;
}

/**
 * A labelled control with its hint and with what the API says of it.
 * @param {{ label: string, name: string, as?: string, hint?: unknown, action?: Action, problem?: string, children?: unknown, [attribute: string]: unknown }} props
 */
export function Field({ label, name, as = 'input', hint, action, problem, children, ...rest }) {
  const id = useId();
  const wrong = problem ?? action?.error?.fields.find((f) => f.field === name)?.detail;
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <${as} id=${id} name=${name} aria-invalid=${wrong ? 'true' : undefined} aria-describedby=${`${id}-hint`} autocomplete="off" ...${rest}>${children}<//>
    <p id=${`${id}-hint`} class=${wrong ? 'small bad' : 'small quiet'}>${wrong ? html`<bdi>${wrong}</bdi>` : hint}</p>
  </div>`;
}

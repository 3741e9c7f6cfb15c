/** @import { Account } from './types.js' */
import { actFor, call } from './api.js';
import { Dialog } from './dialog.js';
import { Problem, useAction } from './form.js';
import { html } from './html.js';
import { startOver } from './query.js';
import { go } from './router.js';
import { accountName, session, setSession } from './session.js';
import { t } from './texts.js';
import { toast } from './toast.js';
import { roleName, say } from './words.js';

/** Shows another account from now on. @param {import('./types.js').Session} next */
export function workIn(next) {
  setSession(next);
  actFor(next.account_id);
  startOver(next);
  go('/console/');
  toast(say(t.worksIn, { account: accountName(next.account ?? '') }));
}

/** The accounts of the person; a click works in one. @param {{ accounts: Account[], onClose: () => void }} props */
export function AccountSwitcher({ accounts, onClose }) {
  const change = useAction(async (/** @type {string} */ id) => {
    const next = await call('PUT', 'session/account', { account_id: id });
    onClose();
    workIn(next);
  });
  const here = session()?.account_id;
  const foot = html`<button type="button" class="secondary" onClick=${onClose}>${t.cancel}</button>`;
  return html`<${Dialog} title=${t.switchAccount} lead=${t.switchLead} foot=${foot} onClose=${onClose}>
    <ul class="choices">${accounts.map(({ account_id, account, role }) => html`<li key=${account_id}>
      <button type="button" class="choice" aria-current=${account_id === here ? 'true' : undefined}
        onClick=${() => (account_id === here ? onClose() : change.run(account_id))}>
        <strong><bdi>${accountName(account)}</bdi></strong><span class="small quiet">${roleName(role)}${account_id === here && `, ${t.current}`}</span></button></li>`)}
    </ul><${Problem} action=${change} title=${t.notSwitched} />
  <//>`;
}

import { actFor } from './api.js';
import { Dialog, Problem, accountName, call, go, html, roleName, say, session, setSession, startOver, t, toast, useAction } from './kit.js';

/** Shows another account from now on. @param {Session} next */
export function workIn(next) {
  setSession(next);
  actFor(next.account_id);
  startOver(next);
  go('/console/');
  toast(say(t.worksIn, { account: accountName(next.account ?? '') }));
}

/** The accounts of the person; a click works in one. @param {{ accounts: Account[], onChosen?: () => void }} props */
export function AccountChoices({ accounts, onChosen }) {
  const change = useAction(async (/** @type {string} */ id) => {
    const next = await call('PUT', 'session/account', { account_id: id });
    onChosen?.();
    workIn(next);
  });
  const here = session()?.account_id;
  return html`<ul class="choices">${accounts.map(({ account_id, account, role }) => html`<li key=${account_id}>
      <button type="button" class="choice" aria-current=${account_id === here ? 'true' : undefined}
        onClick=${() => (account_id === here ? onChosen?.() : change.run(account_id))}>
        <strong><bdi>${accountName(account)}</bdi></strong><span class="small quiet">${roleName(role)}${account_id === here && `, ${t.current}`}</span></button></li>`)}
    </ul><${Problem} action=${change} title=${t.notSwitched} />`;
}

/** The dialog that changes the account. @param {{ accounts: Account[], onClose: () => void }} props */
export function AccountSwitcher({ accounts, onClose }) {
  const foot = html`<button type="button" class="secondary" onClick=${onClose}>${t.cancel}</button>`;
  return html`<${Dialog} title=${t.switchAccount} lead=${t.switchLead} foot=${foot} onClose=${onClose}>
    <${AccountChoices} accounts=${accounts} onChosen=${onClose} />
  <//>`;
}

import { AccountChoices, workIn } from './account-switcher.js';
import { ActionButton, PageHead, Problem, Shape, Time, call, html, refresh, roleName, say, t, useAction } from './kit.js';

/** Gets the person an account. A refusal may mean that another session got it. @param {string} method @param {string} path @param {unknown} [body] */
const enter = (method, path, body) => call(method, path, body).finally(() => refresh('accounts'));

/** An invitation of the person, to accept or to decline. @param {{ offer: Offer }} props */
function Invitation({ offer }) {
  const { id, account, role, inviter, expires_at: end } = offer;
  const accept = useAction(async () => workIn(await enter('POST', `invitations/${id}/accept`)));
  const decline = useAction(() => call('DELETE', `invitations/${id}`), { reread: ['invitations'], done: say(t.declined, { account }) });
  return html`<div class="row"><${Shape} shape="invited" /><div class="grow">
      <strong>${say(t.invitesYou, { account, role: roleName(role).toLowerCase() })}</strong>
      <p class="quiet">${say(t.invitedBy, { inviter: inviter === 'administrator' ? t.administrator : inviter, end: html`<${Time} at=${end} as="moment" />` })}</p>
      <${Problem} action=${accept} title=${t.notAccepted} /><${Problem} action=${decline} title=${t.notDeclined} /></div>
    <span class="pair"><${ActionButton} action=${decline} label=${t.decline} /><${ActionButton} action=${accept} label=${t.accept} /></span></div>`;
}

/** The open invitations of the person. @param {{ offers: Offer[] }} props */
export const Invitations = ({ offers }) => offers.length > 0 && html`<section class="section" aria-label=${t.yourInvitations}>
  <h2>${t.yourInvitations}</h2><div class="panel">${offers.map((offer) => html`<${Invitation} key=${offer.id} offer=${offer} />`)}</div></section>`;

/**
 * The page of a session without an account: the person has none and is invited, or got one in another session.
 * @param {{ offers: Offer[], accounts: Account[] }} props
 */
export function NoAccountPage({ offers, accounts }) {
  const create = useAction(async () => workIn(await enter('PUT', 'session/account', {})));
  const choose = html`<h2>${t.chooseAccount}</h2><p class="quiet">${t.switchLead}</p><${AccountChoices} accounts=${accounts} />`;
  const own = html`<h2>${t.ownAccount}</h2><p class="quiet">${t.ownAccountLead}</p>
    <p><${ActionButton} action=${create} label=${t.createAccount} /></p>`;
  return html`<${PageHead} title=${t.welcome} /><p class="quiet">${t.noAccountYet}</p>
    <${Invitations} offers=${offers} />
    <section class="section"><${Problem} action=${create} title=${t.accountNotCreated} />${accounts.length > 0 ? choose : own}</section>`;
}

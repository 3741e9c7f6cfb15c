import { AccountPage } from './account-page.js';
import { ActivityPage } from './activity-page.js';
import { actFor, whenAccountChanged } from './api.js';
import { Invitations, NoAccountPage } from './invitations.js';
import { KeysPage } from './keys-page.js';
import { ErrorPanel, PageHead, Toasts, accountName, html, render, say, session, setSession, setting, startPressingOnce, startRouter, t, useEffect, usePlace, useQuery, useState } from './kit.js';
import { Navigation, SandboxStrip } from './navigation.js';
import { OverviewPage } from './overview-page.js';
import { RefusedPage } from './refused-page.js';
import { SecretHost } from './secret-dialog.js';
import { SignedOutPage } from './signed-out-page.js';
import { UsagePage } from './usage-page.js';
import { WebhookPage } from './webhook-page.js';
import { WebhooksPage } from './webhooks-page.js';

const NotFoundPage = () => html`<${PageHead} title=${t.notFound} /><p>${t.notFoundLead} <a href="/console/">${t.overview}</a></p>`;

/** @param {{ path: string }} props */
function Page({ path }) {
  const [, endpoint] = /^\/console\/webhooks\/([0-9a-f-]{36})$/.exec(path) ?? [];
  if (endpoint) return html`<${WebhookPage} key=${endpoint} id=${endpoint} />`;
  /** @type {Record<string, unknown>} */
  const pages = {
    '/console/': OverviewPage, '/console/keys': KeysPage, '/console/usage': UsagePage,
    '/console/webhooks': WebhooksPage, '/console/activity': ActivityPage, '/console/account': AccountPage,
  };
  return html`<${pages[path] ?? NotFoundPage} />`;
}

/** The notice that another tab changed the account: the API refuses until this page is loaded again. */
function OtherAccount() {
  const [other, setOther] = useState(/** @type {Session | null} */ (null));
  useEffect(() => whenAccountChanged(setOther), []);
  if (!other || other.account_id === session()?.account_id) return null; // this tab changed it, and the refusal came first
  return html`<div class="notice" role="alert"><p>${say(t.switchedElsewhere, { account: accountName(other.account ?? '') })}</p>
    <button type="button" class="secondary" onClick=${() => location.reload()}>${t.reload}</button></div>`;
}

/** Everything behind the sign-in: the frame, and in it the page of the path. */
function Console() {
  const { path } = usePlace();
  const session = useQuery('session', { keep: true });
  setSession(session.data ?? null);
  actFor(session.data?.account_id);
  const known = session.data?.account_id;
  const overview = useQuery(session.data && !known ? null : 'overview', { keep: true }).data;
  const mine = useQuery('accounts', { keep: true });
  const accounts = mine.data?.accounts ?? [];
  const invitations = useQuery('invitations', { keep: true });
  const offers = invitations.data?.invitations ?? [];
  const ready = [mine, invitations].every((query) => query.data || !query.loading);
  return html`${setting('environment') === 'sandbox' && html`<${SandboxStrip} />`}
    <div class="frame"><a class="skip" href="#main">${t.skip}</a><${Navigation} overview=${overview} accounts=${accounts} />
    <main id="main" tabindex="-1"><${OtherAccount} />
      ${session.error && html`<${ErrorPanel} title=${t.sessionFailed} query=${session} />`}
      ${known || !session.data ? html`<${Invitations} offers=${offers} /><${Page} path=${path} />` : ready && html`<${NoAccountPage} offers=${offers} accounts=${accounts} />`}
    </main></div><${Toasts} /><${SecretHost} />`;
}

function App() {
  const { path } = usePlace();
  if (path === '/console/signed-out') return html`<${SignedOutPage} />`;
  if (path === '/console/refused') return html`<${RefusedPage} />`;
  return html`<${Console} />`;
}

/** Shows the console. */
export function start() {
  startRouter();
  startPressingOnce();
  render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById('app')));
}

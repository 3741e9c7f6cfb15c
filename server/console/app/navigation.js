import { AccountSwitcher } from './account-switcher.js';
import { Badge, PersonName, accountName, html, isPersonal, many, session, setting, t, useEffect, usePlace, useState, useWide } from './kit.js';
import { signOut } from './sign-out.js';

const pages = [
  ['/console/', t.overview], ['/console/keys', t.keys], ['/console/usage', t.usage],
  ['/console/webhooks', t.webhooks], ['/console/activity', t.activity], ['/console/account', t.account],
];

/** The strip that tells the sandbox from production on every page. */
export const SandboxStrip = () => html`<section class="strip" aria-label=${t.environment}><strong>${t.sandbox}</strong><span>${t.notBilled} <span class="wide-only">${t.separate}</span></span></section>`;

/** @param {{ failing: number }} props */
function Links({ failing }) {
  const { path } = usePlace();
  return html`<ul>${pages.map(([href, name]) => {
    const here = href === '/console/' ? path === href : path.startsWith(href);
    return html`<li key=${href}><a href=${href} aria-current=${here ? 'page' : undefined}>${name}
      ${href === '/console/webhooks' && failing > 0 && html`<span class="small bad"><${Badge} shape="bad">${many(t.failingCount, failing)}<//></span>`}</a></li>`;
  })}</ul>`;
}

/** @param {{ accounts: Account[], onSwitch: () => void }} props */
function AccountBox({ accounts, onSwitch }) {
  const { account, role } = session() ?? {};
  return html`<div class="account">
    <div><strong><bdi>${account ? accountName(account) : ''}</bdi></strong>
      <span class="small quiet">${account && (isPersonal(account) ? t.yourAccount : (/** @type {Record<string, string>} */ (t.youAre))[role ?? 'viewer'] ?? role)}</span></div>
    ${accounts.length > 1 && html`<button type="button" class="word small" onClick=${onSwitch}>${t.switch}</button>`}
  </div>`;
}

const Foot = () => html`<div class="nav-foot small"><p><a href="/docs">${t.documentation}</a></p>
  ${session() && html`<p class="quiet"><${PersonName} ...${session()} /></p>
  <button type="button" class="word small" onClick=${signOut}>${t.signOut}</button>`}</div>`;

/** The navigation: a column from 800 px on, below that a bar with a menu. @param {{ overview?: Overview, accounts: Account[] }} props */
export function Navigation({ overview, accounts }) {
  const wide = useWide();
  const { path } = usePlace();
  const [menu, setMenu] = useState(false);
  const [switching, setSwitching] = useState(false);
  useEffect(() => setMenu(false), [path, wide]);
  const lost = !!session() && !session()?.account_id; // the person has not chosen an account yet
  const production = setting('environment') === 'production' && html`<span class="environment">${t.production}</span>`;
  const inside = html`${!lost && html`<${AccountBox} accounts=${accounts} onSwitch=${() => setSwitching(true)} />
    <nav aria-label=${t.pages}><${Links} failing=${overview?.webhooks.failing.length ?? 0} /></nav>`}<${Foot} />`;
  const dialog = switching && html`<${AccountSwitcher} accounts=${accounts} onClose=${() => setSwitching(false)} />`;
  if (wide) return html`<aside class="side"><p class="product"><strong>${t.product}</strong>${production}</p>${inside}</aside>${dialog}`;
  const { account } = session() ?? {};
  /** @param {KeyboardEvent} event */
  const escape = (event) => event.key === 'Escape' && setMenu(false);
  return html`<header class="top-bar" onKeyDown=${escape}>
    <p><strong><bdi>${account ? accountName(account) : t.product}</bdi></strong>${production || html`<span class="small quiet">${t.productConsole}</span>`}</p>
    <button type="button" class="secondary" aria-expanded=${menu} aria-controls="menu" onClick=${() => setMenu(!menu)}>${menu ? t.close : t.menu}</button>
    <div id="menu" class="menu" hidden=${!menu}>${menu && inside}</div></header>${dialog}`;
}

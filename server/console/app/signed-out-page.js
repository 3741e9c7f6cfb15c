import { PageHead, html, t } from './kit.js';

/** Signing in is a navigation, never a form. */
export const SignInLink = ({ label = t.signIn }) => html`<p><a class="primary" href="/v1/developer/sign-in?return_to=%2Fconsole%2F">${label}</a></p>`;

/** The page after a sign-out; it sends no request. */
export const SignedOutPage = () => html`<main class="alone"><p class="product"><strong>${t.product}</strong></p>
  <${PageHead} title=${t.signedOut} /><p>${t.signedOutLead}</p><${SignInLink} /><p class="small"><a href="/docs">${t.documentation}</a></p></main>`;

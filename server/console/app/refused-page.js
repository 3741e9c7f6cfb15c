import { CopyButton, PageHead, html, say, setting, t, usePlace } from './kit.js';
import { SignInLink } from './signed-out-page.js';

/** The page of a sign-in that was refused: why, what helps, and the request id. */
export function RefusedPage() {
  const { params } = usePlace();
  const id = params.get('request_id') ?? '';
  const contact = setting('sign-in-contact');
  const reason = t.refusals[/** @type {keyof typeof t.refusals} */ (params.get('reason') ?? '')] ?? t.refusedLead;
  const mail = contact && /^[^@\s/]+@[^@\s/]+$/.test(contact) ? html`<a href=${`mailto:${contact}`}><bdi>${contact}</bdi></a>` : contact;
  return html`<main class="alone"><p class="product"><strong>${t.product}</strong></p><${PageHead} title=${t.refused} />
    <p>${reason}</p>${mail && html`<p>${say(t.askContact, { contact: mail })}</p>`}<${SignInLink} label=${t.tryAgain} />
    ${/^[A-Za-z0-9._-]{1,128}$/.test(id) && html`<dl class="facts"><div><dt>${t.requestId}</dt>
      <dd><code>${id}</code> <${CopyButton} text=${id} label=${t.copyId} /></dd></div></dl>`}</main>`;
}

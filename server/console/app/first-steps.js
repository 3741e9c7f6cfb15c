import { curl } from './curl.js';
import { CodeBlock, canDevelop, html, t } from './kit.js';

/** The three steps of an account without keys. @param {{ onCreate: () => void }} props */
export const FirstSteps = ({ onCreate }) => html`<section class="steps" aria-label=${t.threeSteps}>
  <h2>${t.threeSteps}</h2><p class="quiet">${t.noKeysYet}</p>
  <ol>
    <li class="now"><div><h3>${canDevelop() ? html`<button type="button" class="link" onClick=${onCreate}>${t.stepKey}</button>` : t.stepKey}</h3>
      <p class="quiet">${t.stepKeyLead}</p></div></li>
    <li><div><h3>${t.stepCall}</h3><p class="quiet">${t.stepCallLead}</p><${CodeBlock} code=${curl('$EXAMPREP_KEY')} label=${t.copyCommand} /></div></li>
    <li><div><h3><a href="/console/webhooks?create=1">${t.stepWebhook}</a></h3><p class="quiet">${t.stepWebhookLead}</p></div></li>
  </ol></section>`;

import { CodeBlock, html, t, useState } from './kit.js';
import { verifyCode } from './verify-code.js';

const languages = /** @type {(keyof typeof verifyCode)[]} */ (Object.keys(verifyCode));

/** The code that verifies a delivery, in four languages. */
export function VerifySignatures() {
  const [language, setLanguage] = useState(languages[0]);
  return html`<p class="quiet">${t.verifyLead}</p>
    <div class="filters"><div class="segments" role="group" aria-label=${t.language}>${languages.map((name) =>
      html`<button type="button" key=${name} aria-pressed=${name === language} onClick=${() => setLanguage(name)}>${name}</button>`)}</div></div>
    <${CodeBlock} code=${verifyCode[language]} label=${t.copyCode} /><p><a href="/docs">${t.verifyMore}</a></p>`;
}

import { h, render } from './vendor/preact.js';
import { useEffect, useState } from './vendor/hooks.js';
import htm from './vendor/htm.js';

/** @typedef {import('api').components['schemas']['Key']} Key */

const html = htm.bind(h);

function App() {
  const [shown, show] = useState(false);
  useEffect(() => show(true), []);
  return html`<p>Signed in. The console is being loaded: ${shown ? 'yes' : 'no'}.</p>`;
}

const root = document.getElementById('app');
if (root) {
  render(html`<${App} />`, root);
}

import { h, render } from './vendor/preact.js';

const root = document.getElementById('app');
if (root) {
  render(h('p', {}, 'You are signed in.'), root);
}

import { html, useEffect, useState } from './html.js';
import { t } from './texts.js';

/**
 * A button that copies a text. Both of its words take up their room, so that nothing moves under the pointer.
 * @param {{ text: string, label: string, look?: string, first?: boolean, onCopied?: () => void }} props
 */
export function CopyButton({ text, label, look = 'word', first, onCopied }) {
  const [result, setResult] = useState('');
  useEffect(() => {
    if (!result) return undefined;
    const timer = setTimeout(() => setResult(''), 3_000);
    return () => clearTimeout(timer);
  }, [result]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setResult(t.copied);
      onCopied?.();
    } catch {
      setResult(t.notCopied);
    }
  };
  return html`<button type="button" class=${`${look} copy`} data-first=${first} onClick=${copy}>
    <span class=${result ? 'hidden' : ''}>${label}</span><span aria-hidden="true">${result}</span>
    <span class="sr" role="status">${result}</span></button>`;
}

/** A text of code with its copy button. @param {{ code: string, label: string }} props */
export const CodeBlock = ({ code, label }) =>
  html`<div class="code"><pre tabindex="0" role="group" aria-label=${label}>${code}</pre><${CopyButton} text=${code} label=${label} /></div>`;

import { Field, html, t } from './kit.js';

export const eventKinds = /** @type {(keyof typeof t.eventKinds)[]} */ (Object.keys(t.eventKinds));

/** The fields of an endpoint, new or old. @param {{ value: EndpointFields, onChange: (value: EndpointFields) => void, action: Action, first?: boolean }} props */
export function WebhookForm({ value, onChange, action, first }) {
  const wrong = action.error?.fields.find((f) => f.field.startsWith('events'))?.detail;
  const toggle = (/** @type {string} */ kind) =>
    onChange({ ...value, events: value.events.includes(kind) ? value.events.filter((e) => e !== kind) : [...value.events, kind] });
  return html`<${Field} label=${t.url} name="url" type="url" inputmode="url" maxlength="2048" class="mono" placeholder="https://" hint=${t.urlHint} action=${action}
      value=${value.url} data-first=${first} onInput=${(/** @type {any} */ e) => onChange({ ...value, url: e.target.value })} />
    <fieldset><legend>${t.events}</legend>${eventKinds.map((kind) => html`<label class="radio" key=${kind}><input type="checkbox" name="events" value=${kind}
        checked=${value.events.includes(kind)} onChange=${() => toggle(kind)} /><span><code>${kind}</code> <span class="small quiet">${t.eventKinds[kind]}</span></span></label>`)}
      ${wrong && html`<p class="small bad"><bdi>${wrong}</bdi></p>`}</fieldset>
    <${Field} label=${t.descriptionOptional} name="description" maxlength="500" hint=${t.descriptionHint} action=${action} value=${value.description}
      onInput=${(/** @type {any} */ e) => onChange({ ...value, description: e.target.value })} />`;
}

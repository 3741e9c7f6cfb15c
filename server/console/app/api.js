
const base = '/v1/developer/';
const patience = 30_000;

/** The account that this page shows; it goes with each request, so that a second tab cannot change it unnoticed. */
let account = '';
/** @type {(session: Session) => void} */
let onOtherAccount = () => {};

/** Sets the account of all later requests. @param {string | undefined} id */
export const actFor = (id) => void (account = id ?? '');

/** Calls back if the session turns out to be of another account. @param {(session: Session) => void} handler */
export const whenAccountChanged = (handler) => void (onOtherAccount = handler);

/** A response other than 2xx, or none: then the status is 0. */
export class APIError extends Error {
  /** @param {number} status @param {ErrorBody} body @param {Headers} headers */
  constructor(status, body, headers) {
    super(`${status} ${body.error}`);
    this.status = status;
    this.code = body.error;
    this.detail = body.detail ?? '';
    this.fields = body.errors ?? [];
    this.requestId = headers.get('x-request-id') ?? '';
    this.at = new Date().toISOString();
    const seconds = Number(headers.get('Retry-After') ?? NaN);
    /** Whether the same request can succeed later. */
    this.passing = status === 0 || status === 429 || status >= 502;
    /** When it can be sent again, in milliseconds since 1970; 0 if that is not known. */
    this.retryAt = this.passing ? Date.now() + 1000 * (seconds >= 0 ? Math.max(1, seconds) : 5) : 0;
  }
}

/** @param {string} method @param {string} path @param {unknown} body @param {Record<string, string>} headers */
async function send(method, path, body, headers) {
  const text = body === undefined ? undefined : JSON.stringify(body);
  if (text !== undefined) headers['Content-Type'] = 'application/json';
  const signal = AbortSignal.timeout(patience);
  try {
    return await fetch(base + path, { method, headers, body: text, credentials: 'same-origin', cache: 'no-store', signal });
  } catch (cause) {
    const error = cause instanceof DOMException && cause.name === 'TimeoutError' ? 'timeout' : 'network';
    throw new APIError(0, { error }, new Headers());
  }
}

/** Leaves for the sign-in, which leads back to this page. */
function toSignIn() {
  const here = location.pathname + location.search;
  const back = here.length <= 512 && /^[A-Za-z0-9/_.~?&=%:,+-]*$/.test(here) ? here : '/console/';
  location.assign(`/v1/developer/sign-in?return_to=${encodeURIComponent(back)}`);
}

/** Whether this page has ended the session. A 401 of a request that was under way waits for that: the page after it says so. */
let ended = Promise.resolve(false);

/**
 * Ends this session, or all of the person, and leaves for the page that says so. It returns whether the session has ended.
 * @param {'session' | 'sessions'} which
 */
export function endSession(which) {
  ended = send('DELETE', which, undefined, {}).then(({ ok, status }) => ok || status === 401, () => false);
  return ended.then((done) => {
    if (done) location.assign('/console/signed-out');
    return done;
  });
}

/** @param {Response} response @returns {Promise<ErrorBody>} */
async function refusal(response) {
  try {
    const body = await response.json();
    if (typeof body.error === 'string') return body;
  } catch {
    // A proxy sent the response: it is no JSON.
  }
  return { error: response.statusText || 'error' };
}

/**
 * Sends one request and returns the body of its response. Without a session it leaves for the sign-in and never returns.
 * @param {string} method @param {string} path @param {unknown} [body] @returns {Promise<any>}
 */
export async function call(method, path, body) {
  const response = await send(method, path, body, account ? { 'Examprep-Account': account } : {});
  if (response.ok) return response.status === 204 ? null : response.json();
  if (response.status === 401) {
    if (!(await ended)) toSignIn();
    return new Promise(() => {});
  }
  const error = new APIError(response.status, await refusal(response), response.headers);
  if (response.status === 409 && account) await compareAccount();
  throw error;
}

/** A 409 has several reasons. The session shows whether this one is that another tab changed the account. */
async function compareAccount() {
  const response = await send('GET', 'session', undefined, {});
  if (!response.ok) return;
  const session = /** @type {Session} */ (await response.json());
  if (session.account_id !== account) onOtherAccount(session);
}

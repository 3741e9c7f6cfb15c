import { plain, t } from './kit.js';

/** Returns a duration for people. @param {number} ms */
const duration = (ms) => (ms < 10_000 ? plain(t.ms, { n: ms }) : plain(t.s, { n: Math.round(ms / 1000) }));

/** The class of a failure in words. @param {string} failure @param {number} [status] */
export function failureWord(failure, status) {
  const word = t.failures[/** @type {keyof typeof t.failures} */ (failure)] ?? failure;
  return plain(word, { status: status ?? '' }).trim();
}

/** The result of an attempt: status and duration, or why there is no status. @param {Try} attempt */
export function attemptResult({ status, failure, duration_ms: ms }) {
  if (failure === 'timeout') return plain(t.timedOutAfter, { time: duration(ms) });
  if (status !== undefined) return plain(t.statusIn, { status, time: duration(ms) });
  return failureWord(failure ?? 'internal');
}

/** The last result of a delivery, which a list has without its duration. @param {Delivery} delivery */
export function lastResult({ state, attempts, last_failure: failure, last_status: status }) {
  if (state !== 'delivered' && failure) return failureWord(failure, status);
  if (status !== undefined) return plain(t.returned, { status });
  return attempts === 0 ? t.notSentYet : '';
}

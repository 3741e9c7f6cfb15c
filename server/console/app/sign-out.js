import { APIError } from './api.js';
import { call, t, toast } from './kit.js';

/** Ends this session, or all of the person. A failure becomes a toast, for the button stands on every page. @param {string} which */
async function end(which) {
  try {
    await call('DELETE', which);
    location.assign('/console/signed-out');
  } catch (error) {
    if (!(error instanceof APIError)) throw error;
    toast(t.notSignedOut);
  }
}

export const signOut = () => end('session');
export const signOutEverywhere = () => end('sessions');

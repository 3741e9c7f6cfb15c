/** The address of the API, as its clients use it. */
export const baseURL = `${location.origin}/v1`;

/** A command that lists the exams with a key. @param {string} key */
export const curl = (key) => `curl ${baseURL}/exam-prep/list \\\n  -H "Authorization: Bearer ${key}"`;

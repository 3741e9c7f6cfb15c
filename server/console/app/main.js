// The entry has no static import, so that it can handle a module of another build: during a rollout the document and the
// modules can come from different pods. It reloads once; the tab remembers for which build.
const build = import.meta.url;

try {
  const { start } = await import('./app.js');
  sessionStorage.removeItem('reloaded-for');
  start();
} catch (error) {
  if (sessionStorage.getItem('reloaded-for') !== build) {
    sessionStorage.setItem('reloaded-for', build);
    location.reload();
  } else {
    const root = /** @type {HTMLElement} */ (document.getElementById('app'));
    root.textContent = 'The console could not be loaded. Reload this page in a minute.';
    throw error;
  }
}

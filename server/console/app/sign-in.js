/** Leaves for the sign-in, which leads back to this page. */
export function toSignIn() {
  const here = location.pathname + location.search;
  const back = here.length <= 512 && /^[A-Za-z0-9/_.~?&=%:,+-]*$/.test(here) ? here : '/console/';
  location.assign(`/v1/developer/sign-in?return_to=${encodeURIComponent(back)}`);
}

// Command seed gives an account something to show in the console: make dev runs it for the account dev.
//
//	seed -api http://127.0.0.1:8080/v1 -account dev -subject dev -receiver https://127.0.0.1:8443/
//
// Each run makes only what is missing, so a second run changes nothing:
//
//   - an active API key, one that expires in five days, one that was rotated and is still accepted, and a revoked one.
//   - requests on each of the last seven days.
//   - a webhook endpoint on this machine. Its address is private, so the worker refuses it (refused_address).
//   - deliveries to that endpoint that wait and that failed, and deliveries that arrived at the declared endpoint.
//
// A person who is a member of the account signs in at the provider of make dev, makes keys and endpoint by the API, and
// signs out. Mock attempts with the account's API key (API_KEY) cause the events, and the worker delivers them. Package
// usage counts the requests of past days. SQL in DATABASE_URL does only what takes days otherwise: it dates keys back and
// shortens the waits before retries.
//
// It fails with the reason if the API, the provider or the database refuses a step; earlier steps stay.
package main

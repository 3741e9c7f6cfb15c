// Command console prepares and checks the console's scripts with packages of hack/npm:
//
//	console vendor   copies Preact, its hooks and htm into server/console/app/vendor, with their licences (make generate)
//	console check    checks the types of server/console/app/*.js (make lint)
//
// A browser resolves no bare module name. The copy of the hooks therefore imports Preact by its relative name. Source maps
// stay behind. Each copied module has a declaration that re-exports the package's types, for the check.
//
// The check writes the completed contract's types to .dev/console/api.d.ts. A script names one by the module "api":
//
//	@typedef {import('api').components['schemas']['Key']} Key
//
// A missing package, an unknown import of a copied module and a type error end the command with status 1.
package main

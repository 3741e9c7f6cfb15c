#!/usr/bin/env bash
# Writes everything that is generated: deep copies, apply configurations, CRDs and the operator's role from the Go
# types and their markers, and the query packages from SQL. Run by `make generate`, which provides the tools, pinned:
#   CONTROLLER_GEN  path of controller-gen
#   SQLC            path of sqlc
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${CONTROLLER_GEN:?path of controller-gen, see make generate}"
: "${SQLC:?path of sqlc, see make generate}"

# allowDangerousTypes: marks and numeric answers are fractions, and JSON numbers carry them; they are never counted with
# by two machines that could round differently.
"$CONTROLLER_GEN" \
    object \
    applyconfiguration \
    crd:allowDangerousTypes=true \
    paths=./api/v1alpha1 \
    output:crd:dir=config/crd/bases \
    output:applyconfiguration:dir=api/v1alpha1/applyconfiguration
"$CONTROLLER_GEN" rbac:roleName=examprep-operator paths=./controllers output:rbac:dir=config/rbac
# The same rules for an operator that is limited to listed namespaces.
sed 's/^kind: ClusterRole$/kind: Role/' config/rbac/role.yaml >config/namespaced/role.yaml

# Copies: go:embed and helm read nothing outside their folder.
cp config/crd/bases/*.yaml api/v1alpha1/crds/
cp config/crd/bases/*.yaml charts/examprep/files/crds/
cp config/rbac/{role,leader_election_role,author_role,viewer_role,webhook_author_role}.yaml charts/examprep/files/rbac/

(cd server/postgres && "$SQLC" generate)

package clustertest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/testenv"
)

// Start runs an API server without CRDs for one test, until the test ends. It is for tests that would disturb others, with
// other CRDs or an audit log. flags are added to the API server's usual flags.
func Start(t testing.TB, flags map[string]string) *rest.Config {
	t.Helper()
	own := environment(testenv.Get(t, testenv.Assets))
	arguments := own.ControlPlane.GetAPIServer().Configure()
	for name, value := range flags {
		arguments.Set(name, value)
	}
	config, err := own.Start()
	check.NoErrorf(t, err, "start API server")
	t.Cleanup(func() {
		check.Succeeds(t, own.Stop(), "stop API server")
	})
	config.QPS = -1
	return config
}

// ClientOf returns a client of an API server that Start brought up; it reads past every cache.
func ClientOf(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := newClient(config)
	check.NoError(t, err)
	return c
}

// InstallCRDs applies the CRDs of a folder, relative to the module's, and waits until their kinds are served.
func InstallCRDs(t testing.TB, config *rest.Config, folder string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	check.NoError(t, installCRDs(ctx, ClientOf(t, config), folder))
}

func installCRDs(ctx context.Context, c client.Client, folder string) error {
	files, err := filepath.Glob(filepath.Join(root(), filepath.FromSlash(folder), "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("found no CRDs in %s", folder))
	}
	for _, file := range files {
		crd, err := apply(ctx, c, file)
		if err == nil {
			err = established(ctx, c, crd.GetName())
		}
		if err != nil {
			return fmt.Errorf("install %s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

// Rules returns the rules of a role in config/rbac.
func Rules(t testing.TB, file string) []rbacv1.PolicyRule {
	t.Helper()
	rules := readRole(t, file).Rules
	if len(rules) == 0 {
		t.Fatalf("%s has no rules", file)
	}
	return rules
}

// Labels returns the labels of a role in config/rbac.
func Labels(t testing.TB, file string) map[string]string {
	t.Helper()
	return readRole(t, file).Labels
}

func readRole(t testing.TB, file string) *rbacv1.ClusterRole {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	check.NoError(t, yaml.Unmarshal(testkit.ReadFile(t, filepath.Join(root(), "config", "rbac", file)), role))
	return role
}

// Grant gives a user rules in one namespace and nowhere else.
func Grant(t testing.TB, c client.Client, namespace, user string, rules []rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.Role{Rules: rules}
	role.Namespace, role.GenerateName = namespace, "granted-"
	check.NoErrorf(t, c.Create(t.Context(), role), "create Role")
	binding := &rbacv1.RoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	binding.Namespace, binding.Name = namespace, role.Name
	check.NoErrorf(t, c.Create(t.Context(), binding), "bind Role")
}

// As returns a config for the same API server and another user. The user has only the rights that Grant gives, besides those
// of all authenticated users.
func As(config *rest.Config, user string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	return config
}

// CanI reports whether the user of config may do verb on the resource in the namespace, as `kubectl auth can-i` does. The
// resource has its group and subresource: examcontents.examprep.dev/status.
func CanI(t testing.TB, config *rest.Config, namespace, verb, resource string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
		},
	}}
	check.NoErrorf(t, ClientOf(t, config).Create(t.Context(), review), "ask for the right to %s %s", verb, resource)
	return review.Status.Allowed
}

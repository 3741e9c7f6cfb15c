package importer

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"examprep.dev/server/testkit/check"
)

func TestConfigMapNamesAreDNSNamesAndDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, id := range []string{
		"es-mir-2013", "ES-MIR-2013", "es.mir.2013", "es:mir:2013", "es_mir_2013", "a..b--c.-d", "a.", "-", strings.Repeat("x", 160),
		strings.Repeat("x", 300), "ñandú",
	} {
		name := dnsName(id)
		if problems := validation.IsDNS1123Subdomain(name + "-01"); len(problems) > 0 {
			t.Errorf("%q gives %q: %v", id, name, problems)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q both give %q", id, other, name)
		}
		seen[name] = id
	}
	check.Equal(t, dnsName("es-mir-2013"), "es-mir-2013", "name made of a good name")
}

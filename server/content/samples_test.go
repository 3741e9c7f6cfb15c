package content

import (
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const samplesFolder = "../../config/samples"

func TestSamplesLintCleanAndTheirSealsMatch(t *testing.T) {
	t.Parallel()
	bundle := load(t, samplesFolder)
	report, err := Lint(t.Context(), bundle, LintOptions{})
	if err != nil {
		t.Error(err)
	}
	if report.ExamContents != 1 || report.Papers != 2 || len(bundle.endpoints) != 2 || len(bundle.tiers) != 1 {
		t.Errorf("the samples are not all there: %+v", report)
	}
	digests, err := Digest(t.Context(), bundle, DigestOptions{})
	check.NoError(t, err)
	for _, seal := range digests.Papers {
		if !seal.Matches {
			t.Errorf("run `examprep content digest --write --by NAME --at DATE config/samples`: %s", seal)
		}
	}
}

var shownInComments = []string{"spec.revision", "spec.signingSecretRef"}

func TestSamplesShowEveryField(t *testing.T) {
	t.Parallel()
	bundle := load(t, samplesFolder)
	shown := make(map[string]bool)
	for _, content := range bundle.Contents {
		collectShown(content.doc.Value, "", shown)
	}
	for _, endpoint := range bundle.endpoints {
		collectShown(endpoint.doc.Value, "", shown)
	}
	for _, tier := range bundle.tiers {
		collectShown(tier.doc.Value, "", shown)
	}
	text := sampleText(t)
	for _, plural := range []string{"examcontents", "webhookendpoints", "ratetiers"} {
		crd, err := v1alpha1.CRD(plural)
		check.NoError(t, err)
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		for _, field := range schemaFields(&spec, "spec") {
			if shown[field] {
				continue
			}
			name := field[strings.LastIndex(field, ".")+1:]
			commented := false
			for _, allowed := range shownInComments {
				commented = commented || strings.HasPrefix(field, allowed) && strings.Contains(text, name+":")
			}
			if !commented {
				t.Errorf("no sample shows %s", field)
			}
		}
	}
}

func sampleText(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(samplesFolder, "*.yaml"))
	check.NoError(t, err)
	var text strings.Builder
	for _, file := range files {
		content := testkit.ReadFile(t, file)
		text.Write(content)
	}
	return text.String()
}

func collectShown(value any, at string, shown map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			field := strings.TrimPrefix(at+"."+key, ".")
			shown[field] = true
			collectShown(below, field, shown)
		}
	case []any:
		for _, item := range v {
			collectShown(item, at, shown)
		}
	}
}

// schemaFields lists the fields below at that a schema declares.
func schemaFields(schema *apiextensionsv1.JSONSchemaProps, at string) []string {
	if schema.Items != nil {
		return schemaFields(schema.Items.Schema, at)
	}
	var fields []string
	for name, field := range schema.Properties {
		fields = append(fields, at+"."+name)
		fields = append(fields, schemaFields(&field, at+"."+name)...)
	}
	return fields
}

package assemble

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/testkit/check"
)

// A default in a question would make it differ from the file that declares it, so server-side apply would report a conflict. Chunks do not
// pass the API server at all. So questionOf sets the section.
func TestSchemaHasNoDefaultOfAQuestion(t *testing.T) {
	t.Parallel()
	crd, err := v1alpha1.CRD("examcontents")
	check.NoError(t, err)
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	question := spec.Properties["papers"].Items.Schema.Properties["questions"].Items.Schema
	found := make(map[string]string)
	collectDefaults(found, "", question)
	check.Equal(t, len(found), 0, "defaults: %v", found)
	converted, complaint := questionOf(&v1alpha1.Question{Answer: v1alpha1.Answer{Choice: "A"}})
	if complaint != "" || converted.Section != 1 {
		t.Errorf("question: %+v %s", converted, complaint)
	}
}

func collectDefaults(found map[string]string, path string, schema *apiextensionsv1.JSONSchemaProps) {
	if schema.Default != nil {
		found[path] = string(schema.Default.Raw)
	}
	for name, property := range schema.Properties {
		collectDefaults(found, path+"."+name, &property)
	}
	if schema.Items != nil {
		collectDefaults(found, path+"[]", schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil {
		collectDefaults(found, path+"{}", schema.AdditionalProperties.Schema)
	}
}

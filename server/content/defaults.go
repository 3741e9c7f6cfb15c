package content

import (
	"encoding/json"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/api/v1alpha1"
)

// defaults holds the defaults of ExamContent's schema. The API server sets them in a resource; files and chunks do not pass
// through it.
type defaults struct {
	spec     v1alpha1.ExamContentSpec
	question v1alpha1.Question
}

// schemaDefaults reads the schema once. Callers share the result and must not change it.
var schemaDefaults = sync.OnceValues(func() (*defaults, error) {
	crd, err := v1alpha1.CRD("examcontents")
	if err != nil {
		return nil, err
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	d := &defaults{}
	if err := setDefaults(&spec, &d.spec); err != nil {
		return nil, err
	}
	question := spec.Properties["papers"].Items.Schema.Properties["questions"].Items.Schema
	return d, setDefaults(question, &d.question)
})

// setDefaults sets the fields of target, a struct, for which the schema has a default.
func setDefaults(schema *apiextensionsv1.JSONSchemaProps, target any) error {
	for name, property := range schema.Properties {
		if property.Default == nil {
			continue
		}
		field := fmt.Appendf(nil, "{%q: %s}", name, property.Default.Raw)
		if err := json.Unmarshal(field, target); err != nil {
			return fmt.Errorf("default of %s: %w", name, err)
		}
	}
	return nil
}

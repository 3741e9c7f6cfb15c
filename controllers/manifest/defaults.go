package manifest

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
	fields := map[string]*apiextensionsv1.JSON{}
	for name, property := range schema.Properties {
		if property.Default != nil {
			fields[name] = property.Default
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode defaults: %w", err)
	}
	if err := json.Unmarshal(text, target); err != nil {
		return fmt.Errorf("decode defaults: %w", err)
	}
	return nil
}

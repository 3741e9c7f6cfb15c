package fields

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/syntax"
)

// Schema has the limits of the resource definition.
type Schema struct {
	root apiextensionsv1.JSONSchemaProps
}

// ReadSchema returns the limits of ExamContent.
func ReadSchema() (Schema, error) {
	crd, err := v1alpha1.CRD("examcontents")
	if err != nil {
		return Schema{}, err
	}
	return Schema{*crd.Spec.Versions[0].Schema.OpenAPIV3Schema}, nil
}

// at returns the schema of a value, and reports whether the objects around it, below a record, require it.
func (s Schema) at(record, field string) (schema *apiextensionsv1.JSONSchemaProps, required bool) {
	schema = &s.root
	for step := range strings.SplitSeq(strings.ReplaceAll(record, "[]", ""), ".") {
		schema = below(schema, step)
	}
	if schema.Items != nil {
		schema = schema.Items.Schema
	}
	required = true
	for _, step := range syntax.ParsePath(field) {
		required = required && slices.Contains(schema.Required, step.Key)
		schema = below(schema, step.Key)
	}
	return schema, required
}

// below returns the schema of a property, of the entries of a list if schema is one.
func below(schema *apiextensionsv1.JSONSchemaProps, name string) *apiextensionsv1.JSONSchemaProps {
	if schema.Items != nil {
		schema = schema.Items.Schema
	}
	property := schema.Properties[name]
	return &property
}

// Required reports whether every record must have a field.
func (s Schema) Required(r Record, f Field) bool {
	if f.Path == "" || f.Needed {
		return f.Needed
	}
	_, required := s.at(r.Path, f.Path)
	return required && f.Type != Answer // some kinds have none
}

// Limits describes the limits of a field's values, or returns "".
func (s Schema) Limits(r Record, f Field) string {
	if f.Path == "" || f.Type == Answer {
		return ""
	}
	schema, _ := s.at(r.Path, f.Path)
	if f.Through != "" {
		return between(schema.MinProperties, schema.MaxProperties, "options")
	}
	if schema.Items != nil && f.Type == Texts {
		return between(schema.MinItems, schema.MaxItems, "texts") + ", each " +
			between(schema.Items.Schema.MinLength, schema.Items.Schema.MaxLength, "characters")
	}
	if schema.MaxLength != nil {
		return between(schema.MinLength, schema.MaxLength, "characters")
	}
	return interval(schema)
}

func between(from, to *int64, unit string) string {
	switch {
	case to == nil:
		return ""
	case from == nil || *from == 0:
		return fmt.Sprintf("at most %d %s", *to, unit)
	default:
		return fmt.Sprintf("%d to %d %s", *from, *to, unit)
	}
}

func interval(schema *apiextensionsv1.JSONSchemaProps) string {
	switch low, high := schema.Minimum, schema.Maximum; {
	case low == nil:
		return ""
	case schema.ExclusiveMinimum:
		return fmt.Sprintf("more than %g, at most %g", *low, *high)
	case high == nil:
		return fmt.Sprintf("at least %g", *low)
	default:
		return fmt.Sprintf("%.0f to %.0f", *low, *high)
	}
}
